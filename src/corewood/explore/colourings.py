"""What the grid can be coloured by: a number or a name for every unit, from the study's tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from corewood.data.task import ALL
from corewood.explore.asked import Place
from corewood.model.mask import Mask, Masks, Units
from corewood.study.results import Tables


@dataclass(frozen=True)
class Colouring:
    name: str
    group: str
    kind: Literal["share", "amount", "signed", "named"]  # from 0 to 1; from 0 on; around 0; a name each
    says: str  # what the numbers are
    values: list[float | str | None] | None  # (unit,) in flat order; None: computed when asked for


def colourings_of(tables: Tables, place: Place, units: Units, masks: Sequence[Mask], labelled: bool) -> list[Colouring]:
    found = [*kept(masks), *ablation(tables, place, units), *attention(tables, place, units)]
    return [*found, *importance(tables, place, units, labelled)]


def own(table: pd.DataFrame | None, place: Place) -> pd.DataFrame:
    """The rows about one model, at its step where the table has one."""
    if table is None:
        return pd.DataFrame()
    mine = (table["task"] == place.task) & (table["tuning"] == place.tuning)
    return table[mine & (table["checkpoint"] == place.step)] if "checkpoint" in table else table[mine]


def by_unit(units: Units, values: pd.Series) -> list[float | str | None]:
    """In flat order; None where there is nothing."""
    each = values.reindex(units.names)
    return [None if pd.isna(v) else v if isinstance(v, str) else round(float(v), 6) for v in each]


def kept(masks: Sequence[Mask]) -> Iterator[Colouring]:
    if len(masks) > 1:
        pack = Masks(masks)
        shares = np.concatenate([pack.heads.mean(0).ravel(), pack.mlps.mean(0)])
        says = f"share of {len(masks)} subnetworks that keep it"
        yield Colouring("how often kept", "how often kept", "share", says, [round(float(v), 6) for v in shares])


def ablation(tables: Tables, place: Place, units: Units) -> Iterator[Colouring]:
    """What removing a unit alone does: the distance from the full model on each set, then points of accuracy by case."""
    table = own(tables.get("ablation"), place)
    if table.empty:
        return
    alone = table[(table["size"] == 1) & (table["metric"] == "accuracy")]
    for whole, rows in alone[alone["case"] == ALL].groupby("dataset", sort=False):
        values = by_unit(units, rows.set_index("units")["kl"])
        yield Colouring(f"on {whole}: KL", "ablation effect", "amount", "KL from the full model without it, in nats", values)
    sets = alone.groupby("case")["dataset"].nunique().to_dict()
    for (dataset, case), rows in alone.groupby(["dataset", "case"], sort=False):
        values = by_unit(units, rows.set_index("units")["change"])
        name = f"on {dataset}" if case == ALL else f"on {dataset}: {case}" if sets[case] > 1 else f"on {case}"
        yield Colouring(name, "ablation effect", "signed", "change of accuracy without it", values)


def attention(tables: Tables, place: Place, units: Units) -> Iterator[Colouring]:
    table = own(tables.get("attention"), place)
    if table.empty:
        return
    does = table.drop_duplicates("unit").set_index("unit")["does"]
    yield Colouring("what it mostly attends to", "attention kind", "named", "attends mostly to", by_unit(units, does))
    for kind, rows in table.groupby("kind", sort=False):
        values = by_unit(units, rows.set_index("unit")["mean"])
        yield Colouring(f"to: {kind}", "attention kind", "share", f"share of its attention to: {kind}", values)


def importance(tables: Tables, place: Place, units: Units, labelled: bool) -> Iterator[Colouring]:
    """Of the first round of pruning, where all units were there; else it is computed when asked for."""
    table = own(tables.get("importance"), place)
    if not table.empty:
        first = table[(table["round"] == table["round"].min()) & (table["prune"] == table["prune"].iloc[0])]
        scores = first.drop_duplicates("unit").set_index("unit")["score"]
        yield Colouring("importance", "importance", "amount", "mean |gradient| of its gate", by_unit(units, scores))
    elif labelled:
        yield Colouring("importance", "importance", "amount", "mean |gradient| of its gate", None)
