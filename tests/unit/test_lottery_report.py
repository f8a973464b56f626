"""The report of a lottery, on tables that are made up: real shapes, plausible numbers, any size."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import Any

import numpy as np
import pandas as pd

from corewood.analyse.methods import beside
from corewood.analyse.overlaps import overlaps
from corewood.analyse.patterns import heterogeneity, pattern_summary
from corewood.analyse.stability import pairs, stability
from corewood.analyse.tickets import summary, survivors
from corewood.model.mask import Mask, Masks

TYPES = ("vertical", "diagonal", "vertical+diagonal", "block", "heterogeneous")
METRIC = {"cola": "matthews", "sts-b": "pearson"}
LEVELS = {"good": (0.9, 0.96), "random": (0.75, 0.92), "bad": (0.65, 0.88)}  # of the full model: pruned, retrained
FOUND = (("importance", "both", 1.0), ("magnitude", "weights", 1.05), ("super-survivors", "both", 0.8))
NOTE = "whoever always says the same has no correlation with anything"
CASES = (
    ("report", "all", "in-domain"),
    ("hard", "all", "challenge"),
    ("hard", "if", "challenge"),
    ("hard", "passive", "challenge"),
)
FACTS = {"draw": 0, "target": 0.0, "search_seed": 0, "epochs": 0.0, "prune": "both", "part": "tickets"}


class Made:
    """`masks` is task -> one mask per seed; all else follows."""

    def __init__(self, tasks: Sequence[str], seeds: Sequence[int], layers: int, heads: int, draws: int = 20) -> None:
        self.tasks, self.seeds, self.layers, self.heads, self.draws = tasks, seeds, layers, heads, draws
        self.rng = np.random.default_rng(0)
        self.masks = {task: [self.mask(i) for _ in seeds] for i, task in enumerate(tasks)}

    def mask(self, task: int) -> Mask:
        liked = np.random.default_rng(task).random((self.layers, self.heads)) + np.random.default_rng(99).random(self.heads)
        heads = liked + 0.8 * self.rng.random(liked.shape) > 1.4
        return Mask(heads, self.rng.random(self.layers) < 0.75)

    def tables(self) -> dict[str, pd.DataFrame]:
        made = {"scores": self.scores(), "tickets": self.sizes(), "holes": pd.DataFrame({"job": [], "reason": []})}
        made["summary"] = summary(made["scores"], made["tickets"])
        made |= {"rounds": self.rounds(), "importance": self.importance(), "survivors": self.survivors()}
        if len(self.seeds) > 1:
            made |= {"stability": self.agreement(), "stability_pairs": self.pairs()}
        if len(self.tasks) > 1:
            made["overlaps"] = overlaps(self.masks, self.draws)
        return made | {"methods": self.methods(), **self.patterns()}

    # tickets

    def scores(self) -> pd.DataFrame:
        rows: list[dict[str, Any]] = []
        for number, task in enumerate(self.tasks):
            metric, full = METRIC.get(task, "accuracy"), 0.9 - 0.04 * number
            facts = {**FACTS, "task": task, "metric": metric, "dataset": "report", "domain": "in-domain", "case": "all"}

            def add(method: str, ticket: str, state: str, seed: int, value: float, facts: Any = facts, **more: Any) -> None:
                row = {**facts, "method": method, "ticket": ticket, "state": state, "seed": seed, "value": value, "note": ""}
                rows.append({**row, **more})

            known, note = (0.5 * full, "") if metric != "pearson" else (np.nan, NOTE)
            add("majority", "majority", "", 0, known, prune="", note=note)
            for seed in self.seeds:
                noise = self.rng.normal(0, 0.015, 40).tolist()
                add("full", "full", "pruned", seed, full + noise.pop())
                for method, prune, scale in FOUND:
                    for ticket, (pruned, retrained) in LEVELS.items():
                        add(method, ticket, "pruned", seed, scale * pruned * full + noise.pop(), prune=prune)
                        add(method, ticket, "retrained", seed, scale * retrained * full + noise.pop(), prune=prune)
                for prune in ("heads", "mlps"):
                    add("importance", "good", "pruned", seed, 0.9 * full + noise.pop(), prune=prune)
                for epochs in (4.0, 6.0):
                    add("importance", "bad", "retrained", seed, 0.88 * full + noise.pop(), epochs=epochs)
                add("untrained", "random", "retrained", seed, 0.6 * full + noise.pop())
        return pd.DataFrame(rows)

    def sizes(self) -> pd.DataFrame:
        rows = []
        for task, masks in self.masks.items():
            alive = reduce(and_, masks)
            for seed, mask in zip(self.seeds, masks, strict=True):
                for method, own in (("importance", mask), ("super-survivors", alive)):
                    for ticket, inside in (("good", 1.0), ("random", 0.5), ("bad", 0.2)):
                        rows.append({**self.size(own, inside), "task": task, "seed": seed, "method": method, "ticket": ticket})
                for prune, left in (("heads", Mask(mask.heads, np.ones(self.layers, bool))), ("mlps", self.all_heads(mask))):
                    rows.append(
                        {
                            **self.size(left, 1.0),
                            "task": task,
                            "seed": seed,
                            "method": "importance",
                            "ticket": "good",
                            "prune": prune,
                        }
                    )
                for ticket, inside in (("good", 1.0), ("random", 0.5), ("bad", 0.0)):
                    facts = {"task": task, "seed": seed, "method": "magnitude", "ticket": ticket, "prune": "weights"}
                    rows.append(
                        {**facts, "weights": 5000.0, "encoder_share": 0.5 + 0.01 * self.rng.random(), "in_good": inside}
                    )
        table = pd.DataFrame(rows)
        return table.assign(
            **{name: table.get(name, pd.Series(index=table.index)).fillna(value) for name, value in FACTS.items()}
        )

    def all_heads(self, mask: Mask) -> Mask:
        return Mask(np.ones_like(mask.heads), mask.mlps)

    def size(self, mask: Mask, inside: float) -> dict[str, float]:
        heads, mlps = float(mask.heads.sum()), float(mask.mlps.sum())
        share = heads / mask.heads.size / 3 + mlps / mask.mlps.size * 2 / 3
        kept = {"heads": heads, "mlps": mlps, "units_share": len(mask) / mask.vector.size, "encoder_share": share}
        return {**kept, "heads_in_good": inside, "mlps_in_good": inside, "in_good": inside}

    # pruning

    def rounds(self) -> pd.DataFrame:
        rows: list[dict[str, Any]] = []
        total = self.layers * self.heads
        for number, task in enumerate(self.tasks):
            for seed in self.seeds:
                full = 0.9 - 0.04 * number + self.rng.normal(0, 0.01)
                for prune in ("both", "heads", "mlps", "weights"):
                    method = "magnitude" if prune == "weights" else "importance"
                    for i in range(8):
                        score = full - 0.002 * i**2.3 + self.rng.normal(0, 0.006)
                        facts = {"task": task, "seed": seed, "method": method, "prune": prune, "round": i, "floor": 0.9 * full}
                        left = {"share": 0.9**i, "weights": 10000 * 0.9**i}
                        if method == "importance":
                            left = {"heads": float(total - i * (total // 10)), "mlps": float(max(0, self.layers - i))}
                        phase = None if prune == "weights" else "full" if i == 0 else prune
                        rows.append({**facts, **left, "phase": phase, "score": score, "passed": bool(score >= 0.9 * full)})
        return pd.DataFrame(rows)

    def importance(self) -> pd.DataFrame:
        names = [f"L{layer}.H{h}" for layer in range(self.layers) for h in range(self.heads)]
        names += [f"L{layer}.MLP" for layer in range(self.layers)]
        tables = []
        for task in self.tasks:
            for seed in self.seeds:
                for i in range(1, 8):
                    kept = names[(i - 1) * len(names) // 14 :]
                    score = self.rng.exponential(0.02, len(kept))
                    tables.append(
                        pd.DataFrame(
                            {"round": i, "unit": kept, "score": score, "ranked": score * 10, "task": task, "seed": seed}
                        )
                    )
        return pd.concat(tables, ignore_index=True).assign(prune="both")

    # masks

    def survivors(self) -> pd.DataFrame:
        tables = []
        shares = {"head": (self.layers, self.heads), "mlp": (self.layers,)}
        for task, masks in self.masks.items():
            kept = {"head": Masks(masks).heads, "mlp": Masks(masks).mlps}
            tables += [survivors(kept).assign(task=task, method="importance", prune=p) for p in ("both", "heads", "mlps")]
            weights = {k: 0.5 + 0.1 * self.rng.standard_normal((len(masks), *shape)).clip(-2, 2) for k, shape in shares.items()}
            tables.append(survivors(weights).assign(task=task, method="magnitude", prune="weights"))
        if len(self.tasks) > 1:
            counts = {
                "head": sum(Masks(m).heads.astype(int) for m in self.masks.values()),
                "mlp": sum(Masks(m).mlps.astype(int) for m in self.masks.values()),
            }
            tables.append(survivors(counts).assign(task="all tasks", method="importance", prune="both"))
            tables.append(survivors(weights).assign(task="all tasks", method="magnitude", prune="weights"))
        return pd.concat(tables, ignore_index=True)

    def kinds(self) -> list[tuple[str, str, np.ndarray, np.ndarray]]:
        layer = np.arange(self.layers)
        found = []
        for task, masks in self.masks.items():
            pack = Masks(masks)
            found.append((task, "head", pack.heads.reshape(len(pack), -1), np.repeat(layer, self.heads)))
            found.append((task, "mlp", pack.mlps, layer))
        return found

    def agreement(self) -> pd.DataFrame:
        return pd.DataFrame(
            {"task": task, "prune": "both", "kind": kind, **stability(kept, strata, self.draws).row()}
            for task, kind, kept, strata in self.kinds()
        )

    def pairs(self) -> pd.DataFrame:
        tables = [
            pairs(kept, list(self.seeds)).assign(task=task, prune="both", kind=kind) for task, kind, kept, _ in self.kinds()
        ]
        return pd.concat(tables, ignore_index=True)

    # methods and patterns

    def methods(self, worse: float = 0.1) -> pd.DataFrame:
        """Importance is worse than L0 on the challenge cases of the first task."""
        rows = []
        for number, task in enumerate(self.tasks):
            for dataset, case, domain in CASES if number == 0 else CASES[:1]:
                n = {"all": 400}.get(case, 200)
                chances = {
                    "l0": 0.8,
                    "importance": 0.8 - worse * (domain == "challenge"),
                    "magnitude": 0.8,
                    "random": 0.5,
                    "full": 0.9,
                }
                luck = self.rng.random((len(self.seeds), n))
                right = {name: (luck < chance).astype(float) for name, chance in chances.items()}
                right["magnitude"] = np.roll(right["magnitude"], 1, 1)
                facts = {"task": task, "target": 0.4, "dataset": dataset, "case": case, "group": "", "domain": domain}
                rows += [{**facts, "method": name, **found} for name, found in beside(right, "l0", 200).items()]
        return pd.DataFrame(rows)

    def patterns(self) -> dict[str, pd.DataFrame]:
        layer, head = (a.ravel() for a in np.indices((self.layers, self.heads)))
        tables = []
        for task in self.tasks:
            for state, seed in (("pretrained", -1), *(("fine-tuned", s) for s in self.seeds)):
                for attention in ("raw", "normed"):
                    shares = self.rng.dirichlet((0.3, 0.4, 0.3, 0.2, 0.6), layer.size)
                    for i, kind in enumerate(TYPES):
                        facts = {
                            "task": task,
                            "state": state,
                            "seed": seed,
                            "attention": attention,
                            "type": kind,
                            "examples": 50,
                        }
                        tables.append(pd.DataFrame({"layer": layer, "head": head, "share": shares[:, i], **facts}))
        found = pd.concat(tables, ignore_index=True)
        alive = {task: reduce(and_, masks) for task, masks in self.masks.items()}
        quality = pd.DataFrame(
            {"type": [*TYPES, "weighted"], "f1": [0.9, 0.95, 0.8, np.nan, 0.7, 0.84], "support": [40, 30, 20, 0, 60, 150]}
        )
        quality = quality.assign(precision=quality["f1"], recall=quality["f1"])
        sets = [quality.assign(set=name, attention=a) for name in ("generated", "real") for a in ("raw", "normed")]
        return {
            "patterns": found,
            "pattern_shares": pattern_summary(found, alive),
            "pattern_quality": pd.concat(sets, ignore_index=True),
            "heterogeneity": heterogeneity(found, alive),
        }
