"""The worker of the live page: the newest request wins, what is urgent goes first, nothing piles up."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from corewood.errors import InputError
from corewood.explore.worker import MOST, Steps, Update, Worker


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker()
    yield made
    made.stop()
    assert not made.thread.is_alive()


class Told:
    """What a request was told, and when it was over."""

    def __init__(self) -> None:
        self.updates: list[Update] = []
        self.over = threading.Event()

    def __call__(self, update: Update) -> None:
        self.updates.append(update)
        if update.last:
            self.over.set()

    @property
    def end(self) -> Update:
        assert self.over.wait(10)
        return self.updates[-1]


def counting(total: int, done: list[object], name: object = None, hold: threading.Event | None = None) -> Steps:
    for i in range(total):
        if hold is not None:
            assert hold.wait(10)
        done.append(name if name is not None else i)
        yield i + 1, total
    return f"counted to {total}"


def test_a_request_is_told_of_its_steps_and_its_result(worker: Worker) -> None:
    told, done = Told(), list[object]()
    worker.ask(("tab", "cases"), 1, counting(3, done), told)
    assert told.end == Update("done", "counted to 3")
    assert [u.content for u in told.updates[:-1]] == [(1, 3), (2, 3), (3, 3)]
    assert not worker.waiting


def test_a_newer_request_ends_an_older_one_of_its_key_alone(worker: Worker) -> None:
    hold, done = threading.Event(), list[object]()
    first, second, other = Told(), Told(), Told()
    worker.ask(("one", "cases"), 1, counting(50, done, "first", hold), first)
    worker.ask(("two", "cases"), 1, counting(2, done, "other", hold), other)
    worker.ask(("one", "cases"), 1, counting(2, done, "second", hold), second)
    assert first.end.state == "superseded"  # at once, though its step is still under way
    hold.set()
    assert second.end.state == other.end.state == "done"
    assert done.count("first") <= 1


def test_what_is_urgent_goes_first_and_the_rest_goes_on(worker: Worker) -> None:
    hold, done = threading.Event(), list[object]()
    long, quick = Told(), Told()
    worker.ask(("tab", "cases"), 5, counting(20, done, "case", hold), long)
    worker.ask(("tab", "answer"), 1, counting(1, done, "answer", hold), quick)
    hold.set()
    assert long.end.state == "done"
    assert quick.end.state == "done"
    assert done.index("answer") <= 1
    assert done.count("case") == 20


def test_nobody_is_told_of_what_was_dropped(worker: Worker) -> None:
    hold, done, told, after = threading.Event(), list[object](), Told(), Told()
    request = worker.ask(("tab", "cases"), 1, counting(50, done, "dropped", hold), told)
    worker.drop(request)
    hold.set()
    worker.ask(("tab", "answer"), 2, counting(1, done), after)
    assert after.end.state == "done"
    assert not any(update.last for update in told.updates)
    assert done.count("dropped") <= 1


def test_a_failure_is_told_and_the_worker_lives_on(worker: Worker, caplog: pytest.LogCaptureFixture) -> None:
    def failing(problem: Exception) -> Steps:
        yield 0, 1
        raise problem

    wrong, broken, after = Told(), Told(), Told()
    worker.ask(("tab", "a"), 1, failing(InputError("the text is empty")), wrong)
    worker.ask(("tab", "b"), 1, failing(RuntimeError("out of memory")), broken)
    worker.ask(("tab", "c"), 1, counting(1, []), after)
    assert wrong.end == Update("failed", "the text is empty")
    assert broken.end == Update("failed", "RuntimeError: out of memory")
    assert after.end.state == "done"
    assert "out of memory" in caplog.text


def test_more_pages_than_can_wait_are_refused(worker: Worker) -> None:
    hold = threading.Event()
    ends = [Told() for _ in range(MOST)]
    for number, told in enumerate(ends):
        worker.ask((str(number), "cases"), 1, counting(1, [], hold=hold), told)
    with pytest.raises(InputError, match="too many pages"):
        worker.ask(("one more", "cases"), 1, counting(1, []), Told())
    hold.set()
    assert {told.end.state for told in ends} == {"done"}
