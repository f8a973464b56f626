from __future__ import annotations

import gc
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # no test may ask the hub
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault(
    "OMP_NUM_THREADS", "1"
)  # of processes that tests begin, too: threads that wait for each other burn the cores

import hypothesis
import pytest
import torch

hypothesis.settings.register_profile("untimed", deadline=None)  # how long an example takes is the machine's business
hypothesis.settings.load_profile("untimed")


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="module")
def _short_collections() -> None:
    """Every training of the Trainer's ends with a full collection; what was imported by now need not be looked at again."""
    gc.freeze()


# the files that take longest begin first, so that all processes end together
LONGEST = ("test_demo.py", "test_run.py", "test_heuristic_core.py", "test_combinations.py", "test_lottery.py", "test_readme.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))
