"""Attacks by what a user gives: study files, data, checkpoints, masks, and the names in them.

Each is told a generator and a workshop, and says nothing where all is well.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import small
from faults.command import corewood
from faults.mutate import HOSTILE, spoil, spoilt_text
from faults.trial import survived
from faults.workshop import Workshop

from corewood.data.read import read_split
from corewood.model.load import load
from corewood.report.cells import write_csv
from corewood.report.page import write_report
from corewood.spec import SourceSpec
from corewood.study.plan import make_plan


def study_files(rng: random.Random, shop: Workshop) -> str:
    """A study file with nasty values: `corewood plan` says what is wrong with it, or plans it."""
    text = spoilt_text(rng, shop.study.read_text(encoding="utf-8"))
    path = shop.study.with_name("spoilt.yaml")
    path.write_text(text, encoding="utf-8", errors="surrogatepass")

    def attack() -> str:
        found = corewood(path.parent, "plan", path.name, "--no-measure", "--store", str(shop.folder / "nothing"))
        return "" if found.told else found.err[-600:]

    return survived(attack, shop.log)


def data_files(rng: random.Random, shop: Workshop) -> str:
    """Damaged or hostile examples in each format."""
    source = rng.choice(shop.data)
    target = shop.folder / "data" / source.name
    shutil.rmtree(target.parent, ignore_errors=True)
    shutil.copytree(source, target) if source.is_dir() else (target.parent.mkdir(), shutil.copy(source, target))
    files = [path for path in target.rglob("*") if path.is_file()] or [target]
    spoil(rng, rng.choice(files), text=source.suffix in (".csv", ".jsonl", ".tsv"))
    wanted: dict[str, Any] = {"text": ("first", "second"), "label": "label", "case": rng.choice(("case", "label", None))}
    spec = SourceSpec.model_validate({"path": str(target), **wanted, "limit": rng.choice((None, 10))})
    return survived(lambda: read_split("cases", spec) and None, shop.log)


def checkpoints(rng: random.Random, shop: Workshop) -> str:
    """A damaged checkpoint is refused, or is a whole model."""
    folder = shop.folder / "checkpoint"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(shop.model, folder)
    path = rng.choice([path for path in folder.iterdir() if path.is_file()])
    if path.suffix == ".json" and rng.random() < 0.7:
        hostile_json(rng, path)
    else:
        spoil(rng, path, text=path.suffix == ".json")
    tuned = rng.random() < 0.5

    def attack() -> None:
        model = load(str(folder), ["a", "b", "c"] if tuned else None, new_head=tuned, check=False)
        if len(model.tokenizer("the nun fell .")["input_ids"]) < 3:
            raise ValueError("its tokenizer reads nothing")

    return survived(attack, shop.log)


def hostile_json(rng: random.Random, path: Path) -> None:
    """Another value for one of its keys, at any depth."""
    content = json.loads(path.read_text(encoding="utf-8"))
    part = content
    while isinstance(part, dict) and part:
        key = rng.choice(sorted(part, key=str))
        if isinstance(part[key], dict) and part[key] and rng.random() < 0.6:
            part = part[key]
            continue
        values: list[Any] = [
            None,
            0,
            -1,
            10**7,
            10**12,
            1.5,
            "",
            "32",
            "x" * 500,
            [],
            [1],
            {},
            {"a": 1},
            True,
            float("nan"),
            "\ud800",
        ]
        part[key] = rng.choice(values)
        break
    path.write_text(json.dumps(content), encoding="utf-8")


def masks(rng: random.Random, shop: Workshop) -> str:
    """`corewood agree` of files of which one is spoilt."""
    folder = shop.folder / "masks"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(shop.masks, folder)
    spoil(rng, rng.choice(sorted(folder.iterdir())), text=True)

    def attack() -> str:
        found = corewood(folder.parent, "agree", folder.name)
        return "" if found.told and "\x1b" not in found.out + found.err else found.err[-600:]

    return survived(attack, shop.log)


class Shape(HTMLParser):
    """The elements of a page, without what is in them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: dict[str, int] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        if any(name.startswith("on") for name, _ in attrs):
            self.tags["a handler"] = 1


PLACES = {
    "case": "case",
    "task": "task",
    "gold": "label",
    "answer": "label",
    "first": "text",
    "second": "text",
    "group": "group",
}


def texts(rng: random.Random, shop: Workshop) -> str:
    """Hostile names and texts in the tables of a study: the page has the same elements, and no table a formula."""
    tables, about = shop.tables, dict(shop.about)
    new: dict[str, str] = {}
    chosen = rng.sample(sorted({*PLACES.values()}), rng.randrange(1, 4))

    def renamed(value: Any) -> Any:
        return (
            new.setdefault(value, f"{rng.choice(HOSTILE)}{len(new) or ''}")
            if isinstance(value, str) and value != "all"
            else value
        )

    made = {}
    for name, table in tables.items():
        columns = [column for column in table.columns if PLACES.get(str(column)) in chosen]
        made[name] = table.assign(**{column: table[column].map(renamed) for column in columns})
    about |= {
        "title": rng.choice(HOSTILE),
        "model": rng.choice(HOSTILE),
        "notes": [rng.choice(HOSTILE)],
        "labels": {"x": rng.choice(HOSTILE)},
    }

    def attack() -> str:
        folder = shop.folder / "page"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        write_report(made, about, folder)
        page = (folder / "report.html").read_text(encoding="utf-8")
        found = Shape(page).tags
        strange = {tag for tag in found if tag not in shop.shape} | {
            tag for tag in ("script", "img", "iframe") if found.get(tag, 0) != shop.shape.get(tag, 0)
        }
        for part in page.split('type="application/json"')[1:]:
            json.loads(part.partition(">")[2].partition("</script>")[0])
        for name, table in made.items():
            write_csv(table, folder / f"{name}.csv")
            cells = pd.read_csv(folder / f"{name}.csv", dtype=str, keep_default_na=False, lineterminator="\n")
            if len(cells) != len(table):
                strange.add(f"{name}.csv has {len(cells)} rows, not {len(table)}")
            for column in table.columns[~table.dtypes.map(pd.api.types.is_numeric_dtype)]:
                if cells[str(column)].str.match(r"[=+\-@\t]").any():
                    strange.add(f"a formula in {name}.{column}")
        return ", ".join(sorted(strange))

    return survived(attack, shop.log)


def whole_plans(rng: random.Random, shop: Workshop) -> str:
    """Everything a user gives, spoilt at once; all of planning."""
    folder = shop.folder / "all"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(shop.study.parent, folder)
    files = [path for path in folder.rglob("*") if path.is_file()]
    for path in rng.sample(files, rng.randrange(1, 3)):
        spoil(rng, path, text=path.suffix in (".yaml", ".csv", ".jsonl", ".json"))

    def attack() -> None:
        make_plan(small.spec_of(folder / shop.study.name), folder)

    return survived(attack, shop.log)


Attack = Callable[[random.Random, Workshop], str]
ATTACKS: dict[str, Attack] = {
    "study files": study_files,
    "data files": data_files,
    "checkpoints": checkpoints,
    "masks": masks,
    "hostile texts": texts,
    "everything given": whole_plans,
}


def some_masks(folder: Path) -> Path:
    """Of each kind, one."""
    from safetensors.numpy import save_file

    folder.mkdir()
    rng = np.random.default_rng(0)
    np.save(folder / "one.npy", rng.integers(0, 2, (4, 6)))
    np.save(folder / "pack.npy", rng.integers(0, 2, (3, 4, 6)))
    (folder / "other.json").write_text(json.dumps({"heads": rng.integers(0, 2, (4, 6)).tolist(), "mlps": [1, 0, 1, 1]}))
    save_file({"heads": rng.integers(0, 2, (4, 6)).astype(np.uint8)}, folder / "third.safetensors")
    return folder
