"""The embedded study with its own model, trained for less long and on one core, beside other tests."""

from __future__ import annotations

import re
import shutil
from importlib.resources import as_file, files
from pathlib import Path

import pandas as pd
import small

from corewood.model.mask import Mask
from corewood.ship.export import ship
from corewood.ship.of_study import results_of, subject_of
from corewood.ship.subject import Wanted
from corewood.spec import read_study
from corewood.store.store import Store
from corewood.study.plan import make_plan


def test_short_searches_are_not_taken_for_the_models_spread(tmp_path: Path) -> None:
    with as_file(files("corewood.study") / "demo.yaml") as demo:
        shutil.copy(demo, tmp_path / "demo.yaml")
    changes = ["prune.l0.settings.steps=8", "prune.l0.sparsity=0.75", "fine_tune.checkpoints=[]", "fine_tune.threads=1"]
    changes += ["fine_tune.steps=60", "fine_tune.batch=16", "prune.l0.seeds=3", "sample=512"]
    changes += ["task.counter=0.06"]  # with more counter-examples, so short a training leaves nothing to lose
    changes += ["task.validation=100", "task.per_case=10", "ablations=null", "attention=null", "figures=[]"]
    words = [word for change in changes for word in ("--set", change)]
    done = small.command("run", "demo.yaml", "--workers", "1", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    sizes = pd.read_parquet(tmp_path / "demo-report/tables/sizes.parquet").query("target == 0.75")
    unseen = sizes["unseen_kl"]
    fine = (unseen <= 1.5 * unseen.min()) | (unseen <= unseen.min() + 0.005)
    assert 1 <= fine.sum() < 3, unseen.tolist()
    assert sizes["comparable"].tolist() == fine.tolist()
    page = (tmp_path / "demo-report/report.html").read_text()
    (headline,) = re.findall(r'<p class="headline">(.*?)</p>', page)
    assert headline.startswith("Not all searches have converged (at 75 % removed)"), headline
    assert re.search(rf"{fine.sum()} of {len(fine)} searches ended within 1.5 times the lowest", page)
    assert "None ended by itself" in page
    check_export(tmp_path, changes)


def check_export(here: Path, changes: list[str]) -> None:
    """A real model with a real mask, from the file: any label that differs from the study's would be an error."""
    results = results_of(make_plan(read_study(here / "demo.yaml", changes), here), Store(here / "corewood-store"))
    subject = subject_of(results, "l0-75-s0")
    shipped = ship(subject, here / "shipped", Wanted(int8=True, measure=False))
    assert isinstance(subject.mask, Mask)
    left = subject.mask.sizes(subject.model.units)["all_parameters"]
    assert shipped.parameters[1] == left < shipped.parameters[0]
    assert shipped.apart < 1e-4
    assert (shipped.cases["file"] == shipped.cases["subnetwork"]).all()
    sizes = [shipped.files[f"onnx/{name}.onnx"]["bytes"] for name in ("model", "model_quantized")]
    assert left * 4 < sizes[0] < left * 4 + 500_000  # four bytes a parameter, and the graph
    assert sizes[1] < sizes[0] / 3
    card = (here / "shipped" / "README.md").read_text()
    assert "license: apache-2.0" in card
    assert "sentence-transformers/all-MiniLM-L6-v2" in card
