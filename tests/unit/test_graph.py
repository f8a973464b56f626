"""Any graph of jobs, any failures, any order of endings: each job ends exactly once."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from corewood.study.engines.engine import Graph
from corewood.study.job import Job


def job(number: int, needs: set[int]) -> Job:
    return Job("predict", str(number), f"job {number}", {}, {str(n): ("predict", str(n)) for n in needs})


@st.composite
def plans(draw: st.DrawFn) -> list[Job]:
    """Each job after what it needs; some need an entry that is not among the jobs, and is there."""
    count = draw(st.integers(0, 12))
    needs = [draw(st.sets(st.integers(-2, number - 1), max_size=4)) for number in range(count)]
    return [job(number, needs[number]) for number in range(count)]


@given(plans(), st.sets(st.integers(0, 11)), st.integers(1, 4), st.randoms(use_true_random=False))
def test_each_job_ends_exactly_once(jobs: list[Job], failing: set[int], workers: int, random: object) -> None:
    graph, ended = Graph(jobs), Counter[str]()
    done: set[str] = set()
    lost: set[str] = set()
    there = {job.key for job in jobs}
    while ready := graph.ready()[: workers - len(graph.running)] or list(graph.running):
        for one in ready:
            if isinstance(one, Job):
                assert all(key in done for key in one.needs() if key in there)
                graph.take(one)
        key = random.choice(sorted(graph.running))  # type: ignore[attr-defined]
        ended[key] += 1
        if int(key) in failing:
            lost.add(key)
            for blocked in graph.failed(key):
                assert lost & set(blocked.needs())
                lost.add(blocked.key)
                ended[blocked.key] += 1
        else:
            done.add(key)
            graph.done(key)
    assert ended == Counter(there)
    assert not graph.waiting
    assert not graph.running
