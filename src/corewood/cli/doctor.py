"""What `corewood doctor` looks at."""

from __future__ import annotations

import platform
import shutil
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch
from rich.markup import escape

from corewood.cli.screen import screen
from corewood.errors import CorewoodError
from corewood.model.load import minilm_folder
from corewood.model.precision import probe
from corewood.store.store import Store
from corewood.study.processes import cores


def examine(store: Path) -> bool:
    """Says line by line what is there; whether nothing is missing."""
    console = screen()
    problems = 0

    def line(good: bool | None, name: str, what: str) -> None:
        nonlocal problems
        problems += good is False
        mark = {True: "[green]ok[/green]  ", False: "[red]no[/red]  ", None: "    "}[good]
        console.print(f"{mark}{name:12} {escape(what)}")

    line(sys.version_info >= (3, 11), "Python", platform.python_version())
    for package in ("torch", "transformers", "datasets", "distributed", "altair", "vl-convert-python"):
        try:
            line(True, package, version(package))
        except PackageNotFoundError:
            line(False, package, f"not installed: pip install {package}")
    for extra, package, what in (
        ("export", "onnxruntime", "to ship subnetworks"),
        ("cluster", "dask-jobqueue", "for --cluster"),
    ):
        try:
            line(True, package, version(package))
        except PackageNotFoundError:
            line(None, package, f"not installed; needed {what}: pip install 'corewood[{extra}]'")
    line(True, "cores", f"{cores()} for this process: a study runs {cores()} jobs side by side")
    if torch.cuda.is_available():
        line(True, "GPU", f"{torch.cuda.get_device_name(0)}; a study runs one worker on each of {torch.cuda.device_count()}")
    else:
        line(None, "GPU", "none; everything runs on the CPU")
    line(True, "float32", "safe everywhere; what Corewood uses on CPUs")
    safe, what = probe()
    line(safe or None, "bfloat16", what)
    try:
        line(True, "minilm", str(minilm_folder()))
    except CorewoodError as problem:
        line(False, "minilm", str(problem))
    try:
        Store(store).check_possible()
        there = next(place for place in (store.absolute(), *store.absolute().parents) if place.exists())
        free = shutil.disk_usage(there).free / 2**30
        line(free > 2, "store", f"{store} can be {'written' if store.exists() else 'made'}; {free:.0f} GiB free")
    except CorewoodError as problem:
        line(False, "store", str(problem))
    browser = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
    only = "only the project's own tests need one"
    line(None, "browser", f"{browser} ({only})" if browser else f"none found; {only}")
    return not problems
