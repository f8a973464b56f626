"""The notebooks of docs/ run from top to bottom, with fewer steps and examples than they show."""

from __future__ import annotations

import ast
import os
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat", reason="not installed; un-skip with scripts/install test check docs")
nbclient = pytest.importorskip("nbclient", reason="not installed; un-skip with scripts/install test check docs")

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
# in place of what stands in the cell that is tagged so
PARAMETERS = {
    "demo": "steps, search, seeds, examples = 12, 3, 2, 4",
    "audit": "search, sizes, seeds = 3, (0.3, 0.6), 1\nsteps, examples = 12, 4",
}


def code_cells(name: str) -> tuple[Any, list[Any]]:
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    return notebook, [cell for cell in notebook.cells if cell.cell_type == "code"]


def names_in(source: str) -> list[str]:
    """What a cell assigns to."""
    lines = [node for node in ast.parse(source).body if isinstance(node, ast.Assign)]
    return [name.id for line in lines for name in ast.walk(line.targets[0]) if isinstance(name, ast.Name)]


def test_every_notebook_is_run() -> None:
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == set(PARAMETERS)


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_notebook_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(FOLDER.parents[1] / "src"), os.environ.get("PYTHONPATH", "")]))
    notebook, cells = code_cells(name)
    [settings] = [cell for cell in cells if "parameters" in cell.metadata.get("tags", [])]
    assert {*names_in(settings.source)} == {*names_in(PARAMETERS[name])}
    settings.source = PARAMETERS[name]
    nbclient.NotebookClient(notebook, timeout=500, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert all(cell.execution_count for cell in cells)
    shown = "".join(str(output) for cell in cells for output in cell.outputs)
    assert "parameters are left" in shown
