"""The site of docs/, built as scripts/docs does."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def build(folder: Path) -> Path:
    if importlib.util.find_spec("zensical") is None:
        pytest.skip("Zensical is not installed; un-skip with scripts/install test check docs")
    shutil.copytree(ROOT / "docs", folder / "docs")
    shutil.copy(ROOT / "mkdocs.yml", folder)
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    quiet = {**os.environ, "NO_COLOR": "1"}
    done = subprocess.run(command, cwd=folder, env=quiet, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"
