"""The examples behind a number: what the full model and its subnetworks say of each, side by side."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd
from scipy.special import softmax

from corewood.data.labels import fold_classes
from corewood.data.task import Split
from corewood.errors import InputError, nearest
from corewood.evaluate.metrics import predicted

Which = Literal["differ", "lost", "gained", "wrong", "all"]
# of an example: the full model is right and the subnetwork wrong; the reverse; both wrong; both right
LOST, GAINED, WRONG, RIGHT = "lost", "gained", "wrong", "right"


def examples(
    split: Split, classes: tuple[str, ...], logits: np.ndarray, full: np.ndarray, other: np.ndarray | None = None
) -> pd.DataFrame:
    """One row per example of a split, in its order; logits are (example, class) of a subnetwork, of the full model and, where
    two are compared, of another subnetwork.

    Columns: first, second (of pairs), case (where there are any), gold; full and full_p, the full model's answer and its
    probability; answer and answer_p, the subnetwork's; other and other_p. `which` is lost, gained, wrong or right: against the
    full model, also where there is another subnetwork. `gap` is how far the two that are compared lie apart: the difference
    between the probabilities they give to the right answer. Probabilities of classes that count as one label are added up,
    while the answer is the label of the likeliest class.
    """
    if split.regression:
        raise InputError(f"{split.name}: its labels are numbers, of which none is simply wrong; look at predictions.logits")
    fold, gold = fold_classes(classes, split), split.gold
    names, rows = np.array(split.labels, dtype=object), np.arange(len(split))
    onto = fold[:, None] == np.arange(len(split.labels))  # (class, label)
    told = {"full": full, "answer": logits} | ({} if other is None else {"other": other})
    made, right, sure = {}, {}, {}
    for who, given in told.items():
        answer, chances = predicted(given, fold), softmax(given.astype(np.float64), -1) @ onto  # (example,), (example, label)
        made[who], made[f"{who}_p"] = names[answer], chances[rows, answer]
        right[who], sure[who] = answer == gold, chances[rows, gold]
    facts = split.frame[[c for c in ("first", "second", "case") if c in split.frame]].reset_index(drop=True)
    which = np.select(
        [right["full"] & ~right["answer"], ~right["full"] & right["answer"], ~right["answer"]], [LOST, GAINED, WRONG], RIGHT
    )
    beside = "full" if other is None else "other"
    return facts.assign(gold=names[gold], **made, which=which, gap=np.abs(sure["answer"] - sure[beside]))


def chosen(table: pd.DataFrame, which: Which = "differ", case: str | None = None) -> pd.DataFrame:
    """Of what `examples` gives: those where the two that are compared differ in their answer, those that the subnetwork lost or
    gained against the full model, all it gets wrong, or all; of one case. The widest gaps come first."""
    if case is not None:
        cases = [] if "case" not in table else [str(name) for name in table["case"].dropna().unique()]
        if case not in cases:
            near = nearest(case, cases) or f" The cases are: {', '.join(cases) or 'none'}."
            raise InputError(f"no case {case!r}.{near}")
        table = table[table["case"] == case]
    beside = table["other"] if "other" in table else table["full"]
    kept = {
        "differ": table["answer"] != beside,
        "lost": table["which"] == LOST,
        "gained": table["which"] == GAINED,
        "wrong": table["answer"] != table["gold"],
        "all": pd.Series(True, table.index),
    }
    if which not in kept:
        raise InputError(f"which={which!r}: choose one of {', '.join(kept)}.{nearest(str(which), kept)}")
    return table[kept[which]].sort_values("gap", ascending=False, kind="stable")
