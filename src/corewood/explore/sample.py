"""A few examples of every case, and what a mask does to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from corewood.data.encode import Encoded, by_length, encode
from corewood.data.task import ALL, Split
from corewood.evaluate.examples import Told, change, told
from corewood.evaluate.metrics import parts
from corewood.evaluate.predict import logits_of
from corewood.explore.asked import LONGEST
from corewood.explore.worker import Steps
from corewood.model.load import Model
from corewood.model.mask import Mask
from corewood.spec import Ablation
from corewood.study.models import Checkpoint
from corewood.study.subnetwork import FULL

STEP = 8  # texts that pass through the model before a click is looked at
SHOWN = 12  # examples of a case that flipped
SURE = 0.95  # of the right answer, about: so that clicks are seen to matter
DIGITS = 4


def drawn_cases(frame: pd.DataFrame, each: int, seed: int) -> np.ndarray:
    """Which rows: up to so many of every case; fewer of them are among those of more."""
    order = np.random.default_rng([seed, 0xE1]).permutation(len(frame))
    cases = frame["case"].to_numpy()[order] if "case" in frame else np.zeros(len(frame))
    rank = pd.Series(cases).groupby(cases).cumcount().to_numpy()
    return np.sort(order[rank < each])


@dataclass(frozen=True)
class Part:
    """Examples of one dataset."""

    dataset: str
    split: Split  # those that were drawn
    rows: np.ndarray  # (example,) their numbers in the dataset
    classes: tuple[str, ...]
    encoded: Encoded
    said: Mapping[str, Told]  # of the full model and of subnetworks of the study

    @classmethod
    def of(
        cls, dataset: str, split: Split, rows: np.ndarray, classes: tuple[str, ...], logits: Mapping[str, np.ndarray],
        checkpoint: Checkpoint,
    ) -> Part:  # fmt: skip
        some = replace(split, frame=split.frame.iloc[rows].reset_index(drop=True))
        encoded = encode(some, checkpoint.tokenizer, checkpoint.max_length)
        return cls(dataset, some, rows, classes, encoded, {who: told(some, classes, own) for who, own in logits.items()})

    @property
    def cases(self) -> list[tuple[str, str, np.ndarray]]:
        """(case, group, which examples); a set without cases is one."""
        every = list(parts(self.split))
        return every[1:] or [(ALL, "", every[0][2])]

    def example(self, case: str, number: int) -> dict[str, Any]:
        """One of a case, counted round and round."""
        inside = next((np.flatnonzero(here) for name, _, here in self.cases if name == case), np.zeros(0, int))
        return {**self.facts(int(inside[number % len(inside)]), case), "of": len(inside)} if len(inside) else {}

    def facts(self, row: int, case: str) -> dict[str, Any]:
        texts = {str(name): text[:LONGEST] for name, text in self.split.texts.iloc[row].items()}
        gold = str(self.split.frame["label"].iloc[row])
        return {"dataset": self.dataset, "case": case, "example": int(self.rows[row]), **texts, "gold": gold}


def begin(sample: Sequence[Part]) -> dict[str, int]:
    """The example to begin with, as places among cases and in its case: where subnetworks of the study differ most, one that
    the full model gets right without being too sure."""
    found = [(part, inside) for part in sample for _, _, inside in part.cases]
    if not found:
        return {}

    def range_of(part: Part, inside: np.ndarray) -> float:
        shares = [said.right[inside].mean() for said in part.said.values()]
        return float(max(shares) - min(shares))

    case = int(np.argmax([range_of(*one) for one in found]))
    part, inside = found[case]
    full = part.said[FULL].at(np.flatnonzero(inside))
    return {"case": case, "number": int(np.argmin(np.where(full.right, np.abs(full.gold_chance - SURE), 1)))}


def judged(model: Model, mask: Mask, ablate: Ablation, sample: Sequence[Part]) -> Steps:
    """Accuracy of a mask on every case, beside the full model and the study's subnetworks, and the examples that flip."""
    total, done = sum(len(part.split) for part in sample), 0
    cases: list[dict[str, Any]] = []
    flips: list[dict[str, Any]] = []
    for part in sample:
        logits = np.zeros((len(part.split), len(part.classes)), np.float32)
        for rows in by_length(part.encoded.lengths, STEP):
            logits[rows] = logits_of(model, mask, part.encoded.take(rows), ablate)
            done += len(rows)
            yield done, total
        own = told(part.split, part.classes, logits)
        for case, group, inside in part.cases:
            cases.append({"dataset": part.dataset, "case": case, "group": group, **beside(part, own, inside)})
            flips += flipped(part, own, case, np.flatnonzero(inside))
    return {"cases": cases, "flips": flips, "texts": total}


def beside(part: Part, own: Told, inside: np.ndarray) -> dict[str, Any]:
    others = {who: float(said.right[inside].mean()) for who, said in part.said.items() if who != FULL}
    shares = {"full": float(part.said[FULL].right[inside].mean()), "now": float(own.right[inside].mean())}
    return {"n": int(inside.sum()), **shares, "others": others}


def flipped(part: Part, own: Told, case: str, rows: np.ndarray) -> list[dict[str, Any]]:
    """Those that the mask answers otherwise than the full model does, the widest gaps first."""
    full, labels = part.said[FULL], part.split.labels
    which, gap = change(full, own), np.abs(full.gold_chance - own.gold_chance)
    rows = rows[full.answer[rows] != own.answer[rows]]
    made = []
    for row in rows[np.argsort(-gap[rows], kind="stable")][:SHOWN]:
        said = {
            who: {"answer": labels[told.answer[row]], "chance": round(float(told.chance[row]), DIGITS)}
            for who, told in (("full", full), ("now", own))
        }
        made.append({**part.facts(int(row), case), **said, "which": str(which[row]), "among": len(rows)})
    return made
