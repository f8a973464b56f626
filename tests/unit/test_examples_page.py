"""The page with the examples behind its dots, of a made-up study as large as they come."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import small

import corewood as cw
from corewood.analyse.differences import corrected, pair_tests, variance_split
from corewood.analyse.verdicts import verdicts
from corewood.evaluate.examples import told
from corewood.evaluate.metrics import parts
from corewood.report.examples import packed
from corewood.report.models import models_of
from corewood.report.page import draw, page
from corewood.study.questions.examples import of_dataset

LABELS = ("entailment", "non-entailment")
WORDS = "the doctor senator artist lawyer manager tourist who near saw believed thanked recommended because although".split()
FACTS: dict[str, Any] = {
    "study": "large", "model": "bert", "task": "pairs", "tuning": 0, "checkpoint": 100, "prune": "both", "nested": False,
    "ticket": "good", "draw": 0, "state": "pruned", "epochs": 0.0, "metric": "accuracy", "note": "",
}  # fmt: skip
BY_TASK = {"task": "pairs", "tuning": 0, "way": "l0"}


def sentences(rng: np.random.Generator, n: int, length: int) -> list[str]:
    return [" ".join(words) + " ." for words in rng.choice(WORDS, (n, length))]


def split_of(rng: np.random.Generator, name: str, n: int, cases: int) -> cw.Split:
    frame = pd.DataFrame({"first": sentences(rng, n, 11), "second": sentences(rng, n, 6), "label": rng.choice(LABELS, n)})
    if cases:
        place = np.arange(n) * cases // n
        frame["case"], frame["group"] = [f"case number {i}" for i in place], [f"group {i // 10}" for i in place]
    return cw.Split(name, frame, LABELS)


def study(cases: int, a_case: int, seeds: int) -> dict[str, pd.DataFrame]:
    """The tables of a study of one model with subnetworks of two sizes; the deeper pruned, the more is lost."""
    rng = np.random.default_rng(0)
    splits = {"validation": split_of(rng, "validation", 2000, 0), "hans": split_of(rng, "hans", cases * a_case, cases)}
    who = [("full", 0.0, 0)] + [(f"l0-{100 * t:g}-s{s}", t, s) for t in (0.5, 0.7) for s in range(seeds)]
    made: dict[str, list[pd.DataFrame]] = {name: [] for name in ("scores", "differences", "variance")}
    judged, behind = [], {}
    for dataset, split in splits.items():
        domain = "in-domain" if dataset == "validation" else "challenge"
        shared = 3 * np.eye(2)[split.gold] + rng.normal(0, 1, (len(split), 2))
        logits = [shared + rng.normal(0, 1 + 4 * target, (len(split), 2)) for _, target, _ in who]
        for (name, target, seed), own in zip(who, logits, strict=True):
            facts = {**FACTS, "subnetwork": name, "target": target, "seed": seed, "dataset": dataset, "domain": domain}
            facts |= {"way": "l0", "question": "prune"} if target else {"way": "full", "question": "full"}
            made["scores"].append(cw.accuracy(own, split, LABELS, logits[0]).assign(**facts))
        said = {(0, name): told(split, LABELS, own) for (name, _, _), own in zip(who, logits, strict=True)}
        behind[dataset] = of_dataset(split, [said], domain)
        right = np.stack([own.right for own in said.values()])
        for case, group, inside in parts(split):
            about = {"dataset": dataset, "case": case, "group": group}
            if case != "all" or dataset == "validation":
                judged.append(({**about, "domain": domain}, right[0, inside], right[1:, inside]))
            for target in (0.5, 0.7):
                mine = np.array([t == target for _, t, _ in who])
                about |= {**BY_TASK, "target": target, "nested": False}
                names = [name for name, t, _ in who if t == target]
                made["differences"].append(pair_tests(right[mine][:, inside], names).assign(**about))
                made["variance"].append(pd.DataFrame([{**about, "n": inside.sum(), **variance_split(right[mine][:, inside])}]))
    tables = {name: pd.concat(rows, ignore_index=True) for name, rows in made.items()}
    tables["differences"] = corrected(tables["differences"])
    tables["spread"] = cw.spread(tables["scores"]).assign(**BY_TASK)
    tables["verdicts"] = verdicts(judged, [name for name, _, _ in who[1:]]).assign(**BY_TASK, prune="both")
    tables["verdicts"]["target"] = tables["verdicts"]["subnetwork"].map({name: target for name, target, _ in who})
    size = {"heads": 72, "mlps": 12, "units": 84, "units_share": 0.5, "encoder_share": 0.6, "all_share": 0.7, "unseen_kl": 0.1}
    sizes = tables["scores"].drop_duplicates("subnetwork")
    tables["sizes"] = sizes.assign(**size, comparable=True, ended=True).reset_index(drop=True)
    for name in ("examples", "answers", "changes"):
        found = pd.concat([of[name].assign(dataset=dataset) for dataset, of in behind.items()], ignore_index=True)
        tables[name] = found.assign(task="pairs")
    return {**tables, "holes": pd.DataFrame({"job": [], "reason": []})}


@pytest.fixture(scope="module")
def large() -> dict[str, pd.DataFrame]:
    return study(cases=30, a_case=1000, seeds=12)


def test_thirty_cases_of_a_thousand_examples_and_24_subnetworks_stay_below_five_megabytes(
    large: dict[str, pd.DataFrame], tmp_path: Path
) -> None:
    assert large["answers"]["subnetwork"].nunique() == 25
    assert len(large["examples"]) > 31 * 60
    text = page(large, small.ABOUT, draw(large))
    (tmp_path / "report.html").write_text(text, encoding="utf-8")
    assert (tmp_path / "report.html").stat().st_size < 5e6
    found = re.search(r'<script type="application/json" id="examples-data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    assert json.loads(found[1])["models"] == {"": 0}


def test_what_is_packed_is_what_the_tables_say() -> None:
    tables = study(cases=3, a_case=50, seeds=2)
    made = packed(tables, models_of(tables))
    task, told_by = made["tasks"]["pairs"], made["told"][0]
    rows = tables["examples"].to_dict("records")
    assert len(task["examples"]) == len(rows)
    answers = tables["answers"].set_index(["subnetwork", "dataset", "example"])
    for place, row in enumerate(rows):
        case, number, gold, *texts = task["examples"][place]
        assert [*task["cases"][case][:2], number] == [row["dataset"], row["case"], row["example"]]
        assert [task["labels"][gold], *texts] == [row["gold"], row["first"], row["second"]]
        assert (task["cases"][case][2] == place) == row["specimen"]
        for name, (said, chances, golds) in told_by["said"].items():
            fact = answers.loc[(name, row["dataset"], row["example"])]
            assert task["labels"][said[place]] == fact["answer"]
            assert chances[place] == pytest.approx(100 * fact["probability"], abs=0.5)
            assert golds[place] == pytest.approx(100 * fact["gold_probability"], abs=0.5)
    for row in tables["changes"].to_dict("records"):
        place = [case[:2] for case in task["cases"]].index([row["dataset"], row["case"]])
        assert told_by["changes"][row["subnetwork"]][place] == [row[name] for name in ("differ", "lost", "gained", "wrong")]
    chosen = {name: task["choices"][place][1] for name, place in task["names"].items()}
    assert chosen["in domain"] == [0]
    assert chosen["case number 1"] == chosen["hans: case number 1"] == [2]
    assert chosen["hans: all"] == [1, 2, 3]
    assert packed({name: table for name, table in tables.items() if name != "answers"}, models_of(tables)) == {}
