"""What ways are called, and which of their rows are shown first."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from corewood.report.style import Tables

IMPORTANCE, MAGNITUDE, SUPER, UNTRAINED = "importance", "magnitude", "super-survivors", "untrained"
L0, WITHOUT, WITH = "l0", "l0 without", "l0 with"
CORE, AROUND = "core", "core + random"
RANDOM = ("random", f"random like {IMPORTANCE}", f"random like {MAGNITUDE}")
BESIDE = (WITHOUT, WITH, CORE, AROUND)  # what stands beside the plain searches
SHORT = {IMPORTANCE: "s ", MAGNITUDE: "m ", SUPER: "", L0: "L0 "}  # before the name of a ticket
SPOKEN = {IMPORTANCE: "s-pruning", MAGNITUDE: "m-pruning", SUPER: "super-survivors", UNTRAINED: "untrained", L0: "L0"}
SPOKEN |= {WITHOUT: "L0 without", WITH: "L0 with"}
ACROSS = 3


def tasks_of(tables: Tables) -> list[str]:
    """In the order of the study."""
    return list(dict.fromkeys(tables["scores"]["task"]))


def first_prune(table: pd.DataFrame) -> str:
    """What importance pruning may remove where tickets are drawn from; the tables have it first."""
    found = table.loc[table["way"] == IMPORTANCE, "prune"] if "way" in table else table["prune"]
    return str(found.iloc[0]) if len(found) else "both"


def own_target(table: pd.DataFrame, way: str = IMPORTANCE) -> float:
    """The size that a way was asked for by itself, which tickets are drawn from: 0, a threshold, or the first."""
    targets = table.loc[table["way"] == way, "target"]
    return 0.0 if targets.empty or (targets == 0).any() else float(targets.iloc[0])


def masks_of(tables: Tables) -> dict[str, tuple[bool, ...]]:
    """Subnetwork -> what it keeps, where the tables have masks of units: searches with other seeds may end at the same."""
    if "masks" not in tables:
        return {}
    found = tables["masks"].groupby("subnetwork", sort=False)["kept"].agg(tuple)
    return {str(name): kept for name, kept in found.items()}


def different_masks(tables: Tables, names: Iterable[str]) -> int:
    """How many of these subnetworks there really are."""
    masks = masks_of(tables)
    return len({masks.get(name, name) for name in names})


def sized(way: str, target: float) -> str:
    return f"{way} {100 * target:g} %" if target else way


def parted(way: str) -> tuple[str, str]:
    """A way, and the size that it was asked for."""
    base, number, _ = way.rsplit(" ", 2) if way.endswith(" %") else (way, "", "")
    return base, f"{number} %" if number else ""


def short(way: str) -> str:
    """Before the name of a ticket."""
    base, size = parted(way)
    return SHORT[base] + (f"{size} " if size else "")


def called(way: object) -> str:
    """As study files have it."""
    return {L0: "L0", WITHOUT: "L0 without", WITH: "L0 with", "full": "full model"}.get(str(way), str(way))


def spoken(way: str) -> str:
    """As the papers have it."""
    base, size = parted(way)
    return SPOKEN.get(base, base) + (f" to {size}" if size else "")


def first_way(rows: pd.DataFrame) -> pd.DataFrame:
    """Of what several ways found, importance pruning's first mode; without it, what the first way found."""
    mine = rows[rows["way"] == IMPORTANCE] if (rows["way"] == IMPORTANCE).any() else rows
    keys = ["way", "prune", "target"]
    return mine[(mine[keys] == mine[keys].iloc[0]).all(axis=1)] if len(mine) else mine
