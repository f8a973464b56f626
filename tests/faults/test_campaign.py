"""A short run of the campaign: `scripts/attack --minutes 60` is the long one."""

from __future__ import annotations

import faulthandler
import os
import signal
import time
from pathlib import Path

import pytest
from faults.campaign import ATTACKS, Tally, one, table
from faults.workshop import LIGHT, Workshop

TRIES = {
    "study files": 10,
    "data files": 40,
    "checkpoints": 12,
    "masks": 10,
    "everything given": 4,
    "hostile texts": 2,
    "damage is noticed": 6,
    "damaged resume points": 2,
    "report folders": 8,
}
LONG = {"kills", "damaged entries", "outsiders at ports"}  # minutes each: tests/study and tests/faults have them one by one
SEED = 20_000


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("shop"), LIGHT)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # a process with threads may not be forked safely; it is
@pytest.mark.parametrize("name", TRIES)
def test_nothing_gets_through(name: str, shop: Workshop) -> None:
    found = {seed: one(name, seed, shop) for seed in range(SEED, SEED + TRIES[name])}
    assert {seed: problem for seed, problem in found.items() if problem} == {}


def test_every_attack_is_run_here_or_takes_long() -> None:
    assert {*TRIES} | LONG == {*ATTACKS}


def test_what_gets_through_is_told_with_its_seed(tmp_path: Path) -> None:
    from faults.trial import survived

    log = tmp_path / "log"
    assert survived(lambda: None, log) == ""
    assert "ZeroDivisionError" in survived(lambda: 1 / 0, log)
    assert survived(lambda: "odd", log) == "odd"

    def die() -> None:
        faulthandler.disable()  # pytest's, which would print every thread
        os.kill(os.getpid(), signal.SIGBUS)

    assert survived(die, log) == "died of SIGBUS"
    assert survived(lambda: time.sleep(9), log, seconds=0.2) == "took more than 0 s"
    shown = table({"kills": Tally(tries=3, failures={7: "x"}), "masks": Tally(tries=2)})
    assert shown.splitlines()[2:] == ["| kills | 3 | 2 | 7 |", "| masks | 2 | 2 | none |", "| all | 5 | 4 | 1 |"]
