from __future__ import annotations

from corewood.cli.options import STORE, Changes, Out, StoreFolder, Workers

NAME = "demo"


def command(store: StoreFolder = STORE, change: Changes = None, workers: Workers = None, out: Out = None) -> None:
    """Run the embedded study: a small BERT, a generated task with a shortcut, eight subnetworks."""
    from importlib.resources import files
    from pathlib import Path

    from corewood.cli.run import run
    from corewood.spec import parse_study

    text = files("corewood.study").joinpath("demo.yaml").read_text(encoding="utf-8")
    run(parse_study(text, "the embedded study", change), Path(), store, workers, out)
