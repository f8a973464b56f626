"""Every public name has an example, and it does what it says."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import small
import tiny
import torch
import transformers

import corewood as cw

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where examples are run: a checkpoint and a study that has run are there."""
    here = tmp_path_factory.mktemp("examples")
    tiny.checkpoint(here / "path" / "to" / "checkpoint")
    small.run(small.write_study(here), here / "store")
    return here


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """What examples take for granted."""
    task = cw.task("overlap", train=300, validation=60, per_case=4)
    model = tiny.model()
    masks = cw.search(model, task, cw.L0(sparsity=0.5, steps=5, batch=8), seeds=3)
    batch = cw.encode(task.validation, model.tokenizer, 64).batch(np.arange(4))
    common = {"np": np, "pd": pd, "torch": torch, "transformers": transformers}
    return {**common, "cw": cw, "task": task, "model": model, "masks": masks, "batch": batch}


def examples() -> Iterator[doctest.DocTest]:
    finder = doctest.DocTestFinder(recurse=False)
    for name in cw.__all__:
        yield from finder.find(getattr(cw, name), name, globs={})


@pytest.mark.parametrize("name", cw.__all__)
def test_every_public_name_is_explained_by_an_example(name: str) -> None:
    said = inspect.getdoc(getattr(cw, name)) or ""
    assert "Example:\n    >>> " in said, f"cw.{name}: its docstring has no example"
    assert said.splitlines()[0].endswith((".", ":", ",")) or said.splitlines()[0][-1].isalnum()


@pytest.mark.parametrize("example", list(examples()), ids=lambda e: e.name)
def test_examples_do_what_they_say(
    example: doctest.DocTest, names: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    example.globs = dict(names)
    said: list[str] = []
    failed = doctest.DocTestRunner(optionflags=FLAGS).run(example, out=said.append, clear_globs=False).failed
    assert not failed, "".join(said)


CLASSES = [name for name in cw.__all__ if inspect.isclass(getattr(cw, name)) and not name.endswith("Error")]


@pytest.mark.parametrize("name", CLASSES)
def test_what_is_public_shows_itself_in_a_notebook(name: str) -> None:
    kind = getattr(cw, name)
    assert callable(kind._repr_html_)
    assert "__repr__" in {attribute for base in kind.__mro__[:-1] for attribute in vars(base)}
