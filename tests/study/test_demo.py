"""The embedded study with its own model, trained for less long and on one core, beside other tests."""

from __future__ import annotations

import re
import shutil
from importlib.resources import as_file, files
from pathlib import Path

import pandas as pd
import small


def test_short_searches_are_not_taken_for_the_models_spread(tmp_path: Path) -> None:
    with as_file(files("corewood.study") / "demo.yaml") as demo:
        shutil.copy(demo, tmp_path / "demo.yaml")
    changes = ["prune.l0.settings.steps=32", "prune.l0.sparsity=0.75", "fine_tune.checkpoints=[]", "fine_tune.threads=1"]
    changes += ["fine_tune.steps=100", "prune.l0.seeds=3", "sample=1024"]
    changes += ["task.validation=200", "task.per_case=20", "ablations=null", "attention=null", "figures=[]"]
    words = [word for change in changes for word in ("--set", change)]
    done = small.command("run", "demo.yaml", "--workers", "1", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    sizes = pd.read_parquet(tmp_path / "demo-report/tables/sizes.parquet").query("target == 0.75")
    held = sizes["held_kl"]
    fine = (held <= 1.5 * held.min()) | (held <= held.min() + 0.005)
    assert sizes["comparable"].tolist() == fine.tolist()
    assert not fine.all(), held.tolist()
    page = (tmp_path / "demo-report/report.html").read_text()
    assert "Not all searches have converged (at 75 % removed)" in page
    assert re.search(rf"{fine.sum()} of {len(fine)} searches ended within 1.5 times the lowest", page)
    assert "None ended by itself" in page
