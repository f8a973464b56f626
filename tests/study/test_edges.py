"""Studies that few people write: numbers to learn and nothing else, names that are taken, one thing said twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pytest
import small
import tiny

from corewood.data.read import read_split
from corewood.errors import InputError
from corewood.spec import SourceSpec, StudySpec
from corewood.store.store import Store
from corewood.study.compare import Side, score_rows
from corewood.study.cost import kept_bytes
from corewood.study.models import Plan
from corewood.study.plan import make_plan
from corewood.study.results import Results
from corewood.study.run import asked, holes_of, provenance

SOURCE: dict[str, Any] = {"path": "dev.jsonl", **small.COLUMNS}
CASES: dict[str, Any] = {"path": "cases.parquet", **small.COLUMNS, "case": "case", "group": "group"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("edges")
    small.write_study(here)
    return here


def plan_of(folder: Path, **changes: Any) -> Plan:
    path = small.write_study(folder, **changes)
    return make_plan(small.spec_of(path), folder)


def spec_of(**changes: Any) -> StudySpec:
    task = {"validation": {**SOURCE}}
    return StudySpec.model_validate({"name": "x", "model": "model", "task": task, **changes})


@pytest.mark.parametrize("checkpoints", [[], [0, 6]])
def test_a_study_of_numbers_alone_has_a_report(tmp_path: Path, checkpoints: list[int]) -> None:
    tiny.checkpoint(tmp_path / "model")
    rng = np.random.default_rng(0)
    words = ["the baker fell .", "the nun fell .", "the actor ran .", "the judge slept ."]
    for name, count in (("train", 60), ("dev", 40)):
        first, second = rng.choice(words, (2, count))
        score = (first == second) + rng.normal(0, 0.1, count)
        pd.DataFrame({"first": first, "second": second, "label": score}).to_csv(tmp_path / f"{name}.csv", index=False)
    path = small.write_study(
        tmp_path,
        task={
            "metric": "pearson",
            "train": {"path": "train.csv", **small.COLUMNS},
            "validation": {"path": "dev.csv", **small.COLUMNS},
        },
        fine_tune={"steps": 12, "batch": 16, "checkpoints": checkpoints},
        prune={"importance": {"sparsity": 0.25}},
        sample=None,
    )
    done = small.run(path, tmp_path / "store")
    assert not done.holes
    scores = done.tables["scores"].query("subnetwork != 'majority'")
    assert set(scores["metric"]) == {"pearson"}
    assert scores["correct"].isna().all()
    assert len(done.tables["spread"])


@pytest.mark.parametrize("given", ["model", "./model", "{folder}/model/"])
def test_a_report_calls_a_model_by_its_name_not_by_its_folder(folder: Path, given: str) -> None:
    plan = plan_of(folder, model=given.format(folder=folder))
    assert provenance(plan, Store(folder / "none"))["model"] == plan.checkpoint.name == "model"


def test_names_that_effective_size_has_itself_are_refused_before_work(folder: Path) -> None:
    cases = pd.read_parquet(folder / "cases.parquet")
    cases.assign(case=cases["case"].replace({"swap": "mixed"})).to_parquet(folder / "named.parquet")
    grid = {"sparsity": [0.2, 0.4], "seeds": 1, "path": True, "settings": {"steps": 4, "batch": 8}}
    task = {"train": {"path": "train.csv", **small.COLUMNS}, "validation": SOURCE}
    for challenge, taken in (
        ({"cases": {**CASES, "path": "named.parquet"}}, "mixed"),
        ({"challenge": {"path": "dev.jsonl", **small.COLUMNS}}, "challenge"),
    ):
        with pytest.raises(InputError, match=f"effective_size: '{taken}' is what one of its own sets is called"):
            plan_of(folder, task={**task, "challenge": challenge}, effective_size=grid)
    plan_of(folder, task={**task, "challenge": {"cases": {**CASES, "path": "named.parquet"}}})


def test_tables_are_made_anew_when_a_set_changes_its_side_or_lists_their_order(folder: Path) -> None:
    task = {"train": {"path": "train.csv", **small.COLUMNS}}
    more = {"path": "dev.jsonl", **small.COLUMNS, "limit": 30}
    inside = plan_of(folder, task={**task, "validation": {"dev": SOURCE, "more": more}})
    outside = plan_of(folder, task={**task, "validation": SOURCE, "challenge": {"more": more}})
    assert asked(inside, {}) != asked(outside, {})
    whole = {**task, "validation": SOURCE, "challenge": {"cases": CASES}}
    path = small.write_study(folder, task=whole)
    orders = ["focus={a: [swap], b: [if]}", "focus={b: [if], a: [swap]}"]
    one, other = (asked(make_plan(small.spec_of(path, order), folder), {}) for order in orders)
    assert one["focus"] != other["focus"]


def test_training_texts_of_two_labels_for_a_model_of_three(folder: Path) -> None:
    tiny.checkpoint(folder / "three", labels=("entailment", "neutral", "contradiction"))
    fold = {"neutral": "non-entailment", "contradiction": "non-entailment"}
    train, validation = ({"path": path, **small.COLUMNS, "fold": fold} for path in ("train.csv", "dev.jsonl"))
    plan = plan_of(folder, model="three", fine_tune=None, task={"train": train, "validation": validation})
    assert plan.tasks[next(iter(plan.tasks))].splits["train"].fold == fold
    with pytest.raises(InputError, match=r"name all labels in the task, labels: \[entailment, neutral, contradiction\]"):
        plan_of(folder, model="three", fine_tune=None, task={"validation": SOURCE})


def test_random_masks_like_masks_that_follow_searches_are_drawn_one_by_one(folder: Path) -> None:
    prune = {
        "l0": {"sparsity": 0.4, "seeds": 3, "settings": {"steps": 4, "batch": 8}},
        "importance": {"like": "l0"},
        "random": {"like": "importance"},
    }
    plan = plan_of(folder, prune=prune)
    drawn = [row.masks.params["seed"] for row in plan.rows if row.way == "random" and row.masks is not None]
    assert len(drawn) == len({*map(tuple, drawn)}) == 3


def test_one_size_twice_is_refused() -> None:
    l0 = {"sparsity": [0.4, 0.7], "seeds": 2}
    with pytest.raises(ValueError, match=r"importance: like: l0 has masks of sparsity 0.4 already"):
        spec_of(prune={"l0": l0, "importance": [{"sparsity": 0.4}, {"like": "l0"}]})
    spec_of(prune={"l0": l0, "importance": [{"sparsity": 0.3}, {"like": "l0"}]})
    with pytest.raises(ValueError, match="a value stands twice"):
        spec_of(prune={"l0": {**l0, "seeds": [0, 0.0]}})


def test_labels_in_two_spellings_are_told(folder: Path) -> None:
    rows = [{"first": "the baker fell .", "second": "the nun fell .", "label": label} for label in ("Yes", "yes", "no") * 4]
    pd.DataFrame(rows).to_csv(folder / "spelt.csv", index=False)
    source = {"path": "spelt.csv", **small.COLUMNS}
    with pytest.raises(InputError, match="'Yes' and 'yes' are one label"):
        plan_of(folder, task={"train": source, "validation": source})


def test_a_split_of_what_has_none_is_refused(folder: Path) -> None:
    frame = pd.read_csv(folder / "train.csv")
    with pytest.raises(InputError, match="a file has no splits; leave split: test out"):
        read_split("x", SourceSpec(path=str(folder / "train.csv"), split="test", **small.COLUMNS))
    datasets.Dataset.from_pandas(frame).save_to_disk(str(folder / "one"))
    with pytest.raises(InputError, match="is one set without splits"):
        read_split("x", SourceSpec(path=str(folder / "one"), split="test", **small.COLUMNS))
    datasets.DatasetDict({"train": datasets.Dataset.from_pandas(frame)}).save_to_disk(str(folder / "several"))
    assert len(read_split("x", SourceSpec(path=str(folder / "several"), **small.COLUMNS))[0]) == len(frame)


def test_a_task_without_a_full_model_yet_is_a_note(folder: Path, tmp_path: Path) -> None:
    plan = plan_of(folder)
    store = Store(tmp_path / "empty")
    side = Side(Results(plan, store, holes_of(plan, store)), next(iter(plan.tasks.values())))
    notes: list[str] = []
    assert [*score_rows(side, side, notes)] == []
    assert notes[0].endswith("no full model of small is evaluated yet")


def test_retrained_models_that_are_kept_take_room(folder: Path) -> None:
    prune = {"importance": {"sparsity": 0.25}}
    sizes = []
    for keep in (False, True):
        plan = plan_of(folder, prune=prune, tickets={"keep": keep})
        sizes.append(kept_bytes(plan, next(job for job in plan.jobs.values() if job.kind == "retrain")))
    tuned = next(job for job in plan.jobs.values() if job.kind == "fine_tune")
    assert sizes[0] < sizes[1] == kept_bytes(plan, tuned) / 3  # three checkpoints
