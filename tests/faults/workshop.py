"""What attacks share: a study with all ways and questions, its data in every format, a run of it that nobody attacked."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import datasets
import pandas as pd
import small

from corewood.study.run import Outcome, provenance

WAYS = {
    "prune": {
        "l0": {"sparsity": [0.4, 0.6], "seeds": 2, "settings": {"steps": 10, "batch": 8}},
        "importance": [{"threshold": 0.8}, {"like": "l0"}],
        "magnitude": {"threshold": 0.8},
        "random": {"like": "l0"},
        "core": {"draws": 1},
        "given": {"path": "masks"},
    },
    "fine_tune": {"steps": 30, "batch": 16, "learning_rate": 1e-3, "checkpoints": [0, 10], "watch": 10},
    "ablations": {"pairs": True, "examples": 20},
    "attention": {"examples": 10, "maps": 1},
    "effective_size": {"sparsity": [0.2, 0.5], "seeds": 1, "path": True, "settings": {"steps": 6, "batch": 8}},
    "tickets": {"random": 1},
    "patterns": {"examples": 4, "maps": 60, "steps": 5},
    "ablate_beside": ["zero"],
    "focus": ["swap", "if"],
    "sample": 60,
}

LIGHT = {  # for a busy machine, and for the tests: fine-tuning and searches alone
    "prune": {"l0": {"sparsity": 0.4, "seeds": 2, "settings": {"steps": 9}}},
    "fine_tune": {"steps": 12, "batch": 8},
    "sample": 40,
}


@dataclass
class Workshop:
    folder: Path
    ways: Mapping[str, Any] = field(default_factory=lambda: WAYS)  # keys of the study

    @property
    def log(self) -> Path:
        return self.folder / "trial.log"

    @cached_property
    def study(self) -> Path:
        home = self.folder / "study"
        path = small.write_study(home, **self.ways)
        (home / "masks").mkdir()
        for name, kept in (("a", [[1, 0, 1, 1], [0, 1, 1, 0]]), ("b", [[1, 1, 0, 1], [0, 1, 0, 1]])):
            (home / "masks" / f"{name}.json").write_text(f'{{"heads": {kept}, "mlps": [1, 1]}}')
        return path

    @property
    def model(self) -> Path:
        return self.study.parent / "model"

    @cached_property
    def masks(self) -> Path:
        from faults.given import some_masks

        return some_masks(self.folder / "some-masks")

    @cached_property
    def data(self) -> list[Path]:
        """The challenge set in every format there is."""
        home = self.folder / "formats"
        home.mkdir()
        frame = pd.read_parquet(self.study.parent / "cases.parquet")
        frame.to_csv(home / "cases.csv", index=False)
        frame.to_csv(home / "cases.tsv", index=False, sep="\t")
        frame.to_json(home / "cases.jsonl", orient="records", lines=True)
        frame.to_parquet(home / "cases.parquet")
        datasets.Dataset.from_pandas(frame).save_to_disk(str(home / "cases"))
        return sorted(home.iterdir())

    # the run

    @cached_property
    def whole(self) -> Outcome:
        """Nobody attacks it."""
        return small.run(self.study, self.folder / "whole")

    @cached_property
    def tables(self) -> dict[str, pd.DataFrame]:
        return self.whole.tables

    @cached_property
    def about(self) -> dict[str, Any]:
        return {**provenance(self.whole.plan, self.whole.store), "figures": []}

    @cached_property
    def shape(self) -> dict[str, int]:
        from faults.given import Shape

        return Shape((self.whole.report / "report.html").read_text(encoding="utf-8")).tags

    def store(self) -> Path:
        """A copy of the whole store, without its tables and report."""
        target = self.folder / "store"
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(self.whole.store.root, target)
        for kind in ("tables", "report"):
            shutil.rmtree(target / "entries" / kind)
        return target

    def started(self, store: Path, *more: str) -> subprocess.Popen[bytes]:
        """The command, in the background."""
        words = [
            sys.executable,
            "-m",
            "corewood",
            "run",
            self.study.name,
            "--store",
            str(store),
            "--out",
            str(self.folder / "out"),
        ]
        errors = (self.folder / "errors.txt").open("wb")
        return subprocess.Popen([*words, *more], cwd=self.study.parent, stdout=subprocess.DEVNULL, stderr=errors)

    def differs(self, store: Path) -> str:
        """Whether a store that was attacked gives other tables than one that was not."""
        found = small.run(self.study, store)
        if not found.complete:
            return f"holes: {small.holes(found)}"
        mine, theirs = small.table_bytes(found), small.table_bytes(self.whole)
        return "" if mine == theirs else f"other tables: {sorted(n for n in theirs if mine.get(n) != theirs[n])}"

    @cached_property
    def seconds(self) -> float:
        """That a run takes here, from the command to the report."""
        started = time.monotonic()
        store = self.folder / "timed"
        assert self.started(store, "--workers", "1").wait() == 0, (self.folder / "errors.txt").read_text()
        return time.monotonic() - started
