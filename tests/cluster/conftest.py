from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import slurm
import small

from corewood.study.run import Outcome


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.write_study(tmp_path_factory.mktemp("study"))


@pytest.fixture(scope="session")
def whole(study: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """In this process: what all others are compared with."""
    return small.run(study, tmp_path_factory.mktemp("whole") / "store", *slurm.CHANGES)


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A Slurm of two nodes, and a file for it."""
    if slurm.lacking():
        pytest.skip(slurm.lacking())
    with pytest.MonkeyPatch.context() as patch, slurm.running(2) as config:
        patch.setenv("SLURM_CONF", str(config))
        file = tmp_path_factory.mktemp("queue") / "slurm.yaml"
        file.write_text("system: slurm\nhost: 127.0.0.1\njobs: 0:2\nwalltime: 10min\nmemory: 1500MB\npoll: 0.5\n")
        yield file
