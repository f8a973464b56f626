"""The examples behind a number: what the full model and its subnetworks say of each, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
A_CASE = 60  # examples of a case that a report shows, beside its specimen


@dataclass(frozen=True)
class Told:
    """What a model says of the examples of a split; all (example,)."""

    answer: np.ndarray  # place among the split's labels
    chance: np.ndarray  # the probability of that answer
    gold_chance: np.ndarray  # the probability of the right one
    right: np.ndarray  # bool

    def at(self, rows: np.ndarray) -> Told:
        return Told(self.answer[rows], self.chance[rows], self.gold_chance[rows], self.right[rows])


def told(split: Split, classes: tuple[str, ...], logits: np.ndarray) -> Told:
    """Probabilities of classes that count as one label are added up, while the answer is the label of the likeliest class."""
    fold, gold, rows = fold_classes(classes, split), split.gold, np.arange(len(split))
    onto = fold[:, None] == np.arange(len(split.labels))  # (class, label)
    answer, chances = predicted(logits, fold), softmax(logits.astype(np.float64), -1) @ onto  # (example,), (example, label)
    return Told(answer, chances[rows, answer], chances[rows, gold], answer == gold)


def change(full: Told, own: Told) -> np.ndarray:
    """(example,) lost, gained, wrong or right."""
    return np.select([full.right & ~own.right, ~full.right & own.right, ~own.right], [LOST, GAINED, WRONG], RIGHT)


def telling(pairs: Sequence[tuple[Told, Told]], number: int = A_CASE) -> np.ndarray:
    """Which examples of a case to show, for what full models and subnetworks, in pairs, say of all of them.

    Of each pair there are lists of what was lost, gained, or is wrong in another way, the widest gap first. An example goes by
    its best place in any of them, then by how many subnetworks differ on it: every subnetwork has its say, whatever the others
    get wrong.
    """
    total = len(pairs[0][0].right)
    best, many = np.full(total, total), np.zeros(total, int)
    for full, own in pairs:
        differ, which, gap = full.answer != own.answer, change(full, own), np.abs(full.gold_chance - own.gold_chance)
        for kind in (LOST, GAINED, WRONG):
            here = np.flatnonzero(differ & (which == kind))
            here = here[np.argsort(-gap[here], kind="stable")]
            best[here] = np.minimum(best[here], np.arange(len(here)))
        many += differ
    return np.sort(np.lexsort((-many, best))[: min(number, int((many > 0).sum()))])


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
    names = np.array(split.labels, dtype=object)
    whose = {"full": full, "answer": logits} | ({} if other is None else {"other": other})
    said = {who: told(split, classes, given) for who, given in whose.items()}
    made = {}
    for who, one in said.items():
        made[who], made[f"{who}_p"] = names[one.answer], one.chance
    facts = split.frame[[c for c in ("first", "second", "case") if c in split.frame]].reset_index(drop=True)
    beside = said["full" if other is None else "other"]
    gap = np.abs(said["answer"].gold_chance - beside.gold_chance)
    return facts.assign(gold=names[split.gold], **made, which=change(said["full"], said["answer"]), gap=gap)


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
