"""A whole study in a few seconds: a tiny random BERT, a few hundred generated pairs in files of the user's own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import tiny
import yaml

from corewood.data.overlap import overlap
from corewood.report.page import finding
from corewood.spec import StudySpec, read_study
from corewood.store.store import Store
from corewood.study.engines import Engine, Inline
from corewood.study.run import Outcome, run_study

COLUMNS = {"text": ["first", "second"], "label": "label"}
# everything a study can ask for, small
EVERYTHING: dict[str, Any] = {
    "effective_size": {"sparsity": [0.2, 0.4, 0.6], "seeds": 2, "path": True, "settings": {"budget": 0.12, "batch": 8}},
    "ablations": {"pairs": True, "sets": ["L0.H1 + L1.H2", "L1.H0 + L0.MLP"], "examples": 40},
    "attention": {"examples": 20, "maps": 2, "texts": [["the baker fell .", "the nun fell ."]]},
    "ablate_beside": ["zero", "resample"],
    "focus": ["swap", "if"],
}
# what a page says of a study that was made up
ABOUT: dict[str, Any] = {
    "title": "made up", "model": "bert", "study": {}, "labels": {}, "examples": {}, "notes": [], "versions": {},
    "ablate": "zero", "figures": ["svg"], "job_seconds": 1,
}  # fmt: skip


def write_study(folder: Path, **changes: Any) -> Path:
    """A checkpoint, three files and a study of them; `changes` replace top-level keys, None removes one."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "model").exists():
        tiny.checkpoint(folder / "model")
    if not (folder / "train.csv").exists():
        task = overlap(seed=1, train=300, validation=60, per_case=4, counter=0.1)
        assert task.train is not None
        task.train.frame.to_csv(folder / "train.csv", index=False)
        task.validation.frame.to_json(folder / "dev.jsonl", orient="records", lines=True)
        task.challenge["cases"].frame.to_parquet(folder / "cases.parquet")
    content: dict[str, Any] = {
        "name": "small",
        "model": "model",
        "task": {
            "train": {"path": "train.csv", **COLUMNS},
            "validation": {"path": "dev.jsonl", **COLUMNS},
            "challenge": {"cases": {"path": "cases.parquet", **COLUMNS, "case": "case", "group": "group"}},
        },
        "fine_tune": {"steps": 30, "batch": 16, "learning_rate": 1e-3, "checkpoints": [0, 10]},
        "prune": {"l0": {"sparsity": [0.4, 0.7], "seeds": 2, "settings": {"steps": 10, "batch": 8}}},
        "sample": 100,
        "figures": [],
        **changes,
    }
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump({k: v for k, v in content.items() if v is not None}), encoding="utf-8")
    return path


def spec_of(path: Path, *changes: str) -> StudySpec:
    return read_study(path, list(changes))


def run(path: Path, store: Path, *changes: str, engine: Engine | None = None, listener: Any = None) -> Outcome:
    return run_study(spec_of(path, *changes), path.parent, Store(store), engine or Inline(), listener)


def holes(outcome: Outcome) -> dict[str, str]:
    """Title of a job -> why it has no result."""
    return {outcome.plan.jobs[key].title: reason for key, reason in outcome.holes.items()}


def said(outcome: Outcome) -> str:
    """What the report would say of a model that has learnt its task: tiny ones have not, and it says that alone."""
    tables = {**outcome.tables, "models": outcome.tables["models"].assign(learnt=True)}
    found = finding(tables, "model")
    return " ".join([found.headline, *found.points])


def table_bytes(outcome: Outcome) -> dict[str, bytes]:
    """All but measured times, which no two runs share."""
    return {p.name: p.read_bytes() for p in sorted((outcome.report / "tables").iterdir()) if p.stem != "speed"}


def command(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "corewood", *map(str, words)], cwd=cwd, capture_output=True, text=True, check=False
    )


LOTTERY: dict[str, Any] = {
    "fine_tune": {"steps": 12, "batch": 16, "learning_rate": 1e-3, "seeds": [1, 2]},
    "prune": {
        "l0": {"sparsity": 0.4, "seeds": 1, "settings": {"steps": 6, "batch": 8}},
        "importance": [{"prune": ["both", "heads", "mlps"], "threshold": 0.8}, {"like": "l0"}],
        "magnitude": [{"threshold": 0.8}, {"like": "l0"}],
        "random": {"like": "l0"},
    },
    "tickets": {"random": 1, "longer": [3], "untrained": True, "super_survivors": True},
    "patterns": {"examples": 6, "maps": 100, "steps": 10},
    "sample": 60,
    "figures": [],
}


def write_lottery(folder: Path, **changes: Any) -> Path:
    """Three tasks of one checkpoint: pairs with cases, single sentences (Matthews), and scores (Pearson)."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "model").exists():
        tiny.checkpoint(folder / "model", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        task = overlap(seed=1, train=200, validation=60, per_case=4, counter=0.1)
        assert task.train is not None
        task.challenge["cases"].frame.to_parquet(folder / "cases.parquet")
        for name, split in (("train", task.train), ("dev", task.validation)):
            frame = split.frame
            frame.to_csv(folder / f"pairs-{name}.csv", index=False)
            (folder / "CoLA").mkdir(exist_ok=True)
            answers = (frame["label"] == "entailment").astype(int)
            rows = [f"x\t{answer}\t\t{text}" for text, answer in zip(frame["first"], answers, strict=True)]
            (folder / "CoLA" / f"{name}.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
            scores = frame.assign(score=frame["first"].str.split().str.len() / 5)
            scores[["first", "second", "score"]].to_csv(folder / f"scores-{name}.csv", index=False)
    scores = {"text": ["first", "second"], "label": "score"}
    content: dict[str, Any] = {
        "name": "small-lottery",
        "model": "model",
        "tasks": {
            "pairs": {
                "train": {"path": "pairs-train.csv", **COLUMNS},
                "validation": {"path": "pairs-dev.csv", **COLUMNS},
                "challenge": {"cases": {"path": "cases.parquet", **COLUMNS, "case": "case", "group": "group"}},
            },
            "cola": {"glue": "cola", "folder": "CoLA"},
            "scores": {
                "metric": "pearson",
                "train": {"path": "scores-train.csv", **scores},
                "validation": {"path": "scores-dev.csv", **scores},
            },
        },
        **LOTTERY,
        **changes,
    }
    path = folder / "lottery.yaml"
    path.write_text(yaml.safe_dump({k: v for k, v in content.items() if v is not None}), encoding="utf-8")
    return path
