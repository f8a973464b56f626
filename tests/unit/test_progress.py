"""How long it will still take."""

from __future__ import annotations

import time

import pytest

from corewood.cli.progress import Tally, span
from corewood.study.engines import Event
from corewood.study.job import Job
from corewood.study.kinds import KINDS


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(time, "monotonic", made)
    return made


def jobs(kind: str, count: int, work: int) -> list[Job]:
    return [Job.make(KINDS[kind], f"{kind} {i}", {"number": i}, work=work) for i in range(count)]


def finish(tally: Tally, clock: Clock, pair: list[Job], seconds: float) -> None:
    """Side by side."""
    for job in pair:
        tally.note(job, Event(job.key, "started"))
    clock.now += seconds
    for job in pair:
        tally.note(job, Event(job.key, "done"))


def test_each_kind_goes_on_at_its_own_pace(clock: Clock) -> None:
    tally, short, long = Tally(), jobs("predict", 10, 50), jobs("retrain", 6, 100)
    tally.start([*short, *long])
    assert tally.left() == ""
    finish(tally, clock, short[:2], 10.0)
    finish(tally, clock, long[:2], 400.0)
    # two at a time: four pairs of 10 s, two of 400 s
    assert tally.left() == f"about {span(4 * 10 + 2 * 400)} left"
    tally.note(long[2], Event(long[2].key, "started"))
    tally.note(long[3], Event(long[3].key, "started"))
    clock.now += 100
    for job in long[2:4]:
        tally.note(job, Event(job.key, "progress", done=1, total=4))
    assert tally.left() == f"about {span(4 * 10 + 300 + 400)} left"


def test_a_kind_that_has_not_begun_is_guessed_from_the_others(clock: Clock) -> None:
    tally, seen, unseen = Tally(), jobs("predict", 2, 100), jobs("retrain", 2, 100)
    tally.start([*seen, *unseen])
    finish(tally, clock, seen, 60.0)
    assert tally.left() == f"about {span(300)} left"  # a training step is about five forward passes


def test_a_job_on_two_cores_is_as_two_at_a_time(clock: Clock) -> None:
    tally, others = Tally(), jobs("retrain", 4, 100)
    first = Job.make(KINDS["fine_tune"], "fine-tune", {}, local={"threads": 2}, work=100)
    tally.start([first, *others])
    finish(tally, clock, [first], 60.0)
    assert tally.left() == f"about {span(2 * 120)} left"  # 120 s of a core each, two at a time


def test_what_failed_says_nothing_about_time(clock: Clock) -> None:
    tally, some = Tally(), jobs("predict", 4, 100)
    tally.start(some)
    finish(tally, clock, some[:2], 60.0)
    tally.note(some[2], Event(some[2].key, "failed", "why"))
    assert tally.left() == f"about {span(30)} left"  # one of two at a time
