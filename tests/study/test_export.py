"""A study's subnetworks as folders to ship: by name, retrained, of weights; and what is said where that cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import small
import torch
import transformers
from typer.testing import CliRunner

import corewood as cw
from corewood.cli.commands import app
from corewood.cli.exporting import export_from
from corewood.cli.voice import Voice
from corewood.errors import InputError
from corewood.model.gates import gated
from corewood.ship import of_study
from corewood.ship.export import ship
from corewood.ship.of_study import recommended, results_of, subject_of
from corewood.ship.subject import Shipped, Wanted
from corewood.spec import read_study
from corewood.store.store import Store
from corewood.study.plan import make_plan
from corewood.study.results import Results
from corewood.study.run import Outcome

QUICK = Wanted(measure=False)
ASKED: dict[str, Any] = {
    "fine_tune": {"steps": 8, "batch": 16, "learning_rate": 1e-3},
    "prune": {
        "l0": {"sparsity": [0.4, 0.7], "seeds": 1, "settings": {"steps": 6, "batch": 8}},
        "magnitude": {"sparsity": 0.5},
    },
    "tickets": {"of": ["l0", "magnitude"], "random": 0, "keep": True},
    "sample": 60,
}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export")
    small.write_study(folder, **ASKED)
    return folder


@pytest.fixture(scope="module")
def outcome(here: Path) -> Outcome:
    made = small.run(here / "study.yaml", here / "store")
    assert made.complete, small.holes(made)
    return made


def results_with(here: Path, *changes: str) -> Results:
    return results_of(make_plan(read_study(here / "study.yaml", list(changes)), here), Store(here / "store"))


def exported(here: Path, out: Path, name: str, wanted: Wanted = QUICK) -> Shipped:
    return ship(subject_of(results_with(here), name), out, wanted)


def scores(outcome: Outcome, name: str) -> dict[tuple[str, str], float]:
    table = outcome.tables["scores"]
    mine = table[(table["subnetwork"] == name) & (table["metric"] == "accuracy")]
    return {(row["dataset"], row["case"]): row["value"] for _, row in mine.iterrows()}


def check_cases(shipped: Shipped, outcome: Outcome, name: str) -> None:
    """What the file gets right is what the study's table says, case by case."""
    want = scores(outcome, name)
    assert len(shipped.cases) > 10
    for _, row in shipped.cases.iterrows():
        assert row["file"] == row["subnetwork"] == want[row["dataset"], row["case"]]


def test_the_command_writes_what_the_study_found(here: Path, outcome: Outcome, tmp_path: Path) -> None:
    words = ["export", here / "study.yaml", "l0-70-s0", "--store", here / "store", "--out", tmp_path / "one"]
    done = CliRunner().invoke(app, [*map(str, words), "--no-measure", "--json"])
    assert done.exit_code == 0, done.output
    last = json.loads(done.stdout.splitlines()[-1])
    assert (last["event"], last["subnetwork"]) == ("result", "l0-70-s0")
    want = scores(outcome, "l0-70-s0")
    assert {(row["dataset"], row["case"]): row["file"] for row in last["cases"]} == want
    record = json.loads((tmp_path / "one" / "corewood.json").read_text())
    row = outcome.results.find("l0-70-s0")
    assert record["study"] == "small"
    assert record["keys"]["the mask"] == row.masks.key  # type: ignore[union-attr]
    assert record["mask"]["heads"] == outcome.mask("l0-70-s0").heads.astype(int).tolist()  # type: ignore[union-attr]
    assert record["base_model"] == "model"  # the last part of its folder's name, not where that is
    assert str(here) not in (tmp_path / "one" / "README.md").read_text()


def test_retrained_subnetworks_are_kept_when_asked(here: Path, outcome: Outcome, tmp_path: Path) -> None:
    name = "l0-40-s0-retrained"
    model, mask = outcome.model(name), outcome.mask(name)
    assert isinstance(mask, cw.Mask)
    closed = ~mask.heads[0].repeat(8)
    assert (model.attention_outs[0].weight.detach().numpy()[:, closed] == 0).all()
    split = outcome.plan.tasks["task"].splits["cases"]
    batch = cw.encode(split, model.tokenizer, 64).batch(np.arange(20))
    want = outcome.results.logits(outcome.results.find(name), "cases")[:20]
    with torch.inference_mode(), gated(model, mask, "zero"):
        np.testing.assert_allclose(model(**batch).logits.numpy(), want, atol=2e-5)
    shipped = exported(here, tmp_path / "one", name, Wanted(measure=False, dropin=True))
    check_cases(shipped, outcome, name)
    again = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "one" / "dropin").eval()
    with torch.inference_mode():
        np.testing.assert_allclose(again(**batch).logits.numpy(), want, atol=2e-5)


def test_masks_of_weights_are_shipped_dense(here: Path, outcome: Outcome, tmp_path: Path) -> None:
    names = [row.name for row in outcome.plan.rows if row.of_weights and row.ticket == "good"]
    assert len(names) == 2  # as pruned, and retrained
    for name in names:
        shipped = exported(here, tmp_path / name, name)
        check_cases(shipped, outcome, name)
        dense = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / name / "dropin")
        mask = outcome.mask(name)
        assert isinstance(mask, cw.WeightMask)
        zero = sum(int((dense.get_parameter(n) == 0).sum()) for n in mask.bits)
        assert zero >= mask.total - len(mask) > 0
        assert f"{100 * (1 - mask.share):.1f} % of its layers' weights are zero" in (tmp_path / name / "README.md").read_text()


def test_keeping_models_leaves_the_keys_of_others(here: Path) -> None:
    """Stores of before are still found."""
    spec = [read_study(here / "study.yaml", changes) for changes in ([], ["tickets.keep=false"])]
    kept, before = (make_plan(one, here).jobs for one in spec)
    both = set(kept) & set(before)
    assert {job.kind for job in kept.values() if job.key not in both} == {"retrain"}
    assert all("keep" not in job.params for job in before.values())


def test_a_model_that_was_not_kept_is_missed(here: Path, outcome: Outcome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corewood.study.results.KEPT", "elsewhere")
    with pytest.raises(InputError, match=r"was retrained, and such models are judged and not kept; with tickets: {keep: true}"):
        subject_of(results_with(here), "l0-40-s0-retrained")


def test_the_recommended_one_is_exported_without_a_name(
    here: Path, outcome: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results = results_with(here)
    rows = [  # as if the tiny model had learnt something
        {"task": "task", "tuning": 0, "way": "l0", "subnetwork": name, "domain": domain, "verdict": "kept", "change": 0.0}
        for name in ("l0-40-s0", "l0-70-s0")
        for domain in ("in-domain", "challenge")
    ]
    monkeypatch.setattr(of_study, "verdicts_table", lambda _results: pd.DataFrame(rows))
    assert recommended(results) == "l0-70-s0"  # the smaller of two that keep all
    rows[-1]["verdict"] = "lost"
    assert recommended(results) == "l0-40-s0"
    export_from(results.plan.spec, here, here / "store", (None, None, None), tmp_path / "one", QUICK, Voice())
    said = capsys.readouterr()
    assert "Recommended: l0-40-s0, the smallest that keeps every case" in said.err
    assert "gives the subnetwork's label on all" in said.out
    rows[1]["verdict"] = "open"
    with pytest.raises(InputError, match=r"no subnetwork is shown to keep every case.*name one: full, l0-40-s0, l0-70-s0"):
        recommended(results)


def test_what_cannot_be_exported_is_told(here: Path, outcome: Outcome, tmp_path: Path) -> None:
    wrong: list[tuple[Any, str]] = [
        (lambda: subject_of(results_with(here), "l0-70-s3"), r"no subnetwork 'l0-70-s3'\. Did you mean 'l0-70-s0'"),
        (
            lambda: subject_of(results_with(here, "prune.l0.seeds=2"), "l0-70-s1"),
            r"l0-70-s1 has not run that far; missing: search 70 % seed 1; .* Run it first: corewood run",
        ),
        (
            lambda: recommended(results_with(here, "prune.l0.seeds=2")),
            "not all its subnetworks are judged yet, so none is recommended; missing: .* and .* more",
        ),
        (
            lambda: recommended(results_with(here, "fine_tune.seeds=[0, 1]")),
            "has 2 models.*say which: --task task --tuning 0; --task task --tuning 1",
        ),
        (
            lambda: results_of(make_plan(read_study(here / "study.yaml"), here), Store(tmp_path / "empty")),
            "holds nothing of small yet; run it first",
        ),
    ]
    for call, message in wrong:
        with pytest.raises(InputError, match=message):
            call()
    assert not (tmp_path / "empty").exists()


def test_the_full_model_can_be_exported(here: Path, outcome: Outcome, tmp_path: Path) -> None:
    shipped = exported(here, tmp_path / "one", "full")
    assert shipped.parameters[0] == shipped.parameters[1]
    check_cases(shipped, outcome, "full")
