"""Decide the claims of the Heuristic Core by the rules of docs/evidence.md, from the tables of reports.

    .venv/bin/python bench/evidence.py REPORT [REPORT ...] [--picture FILE] [--growth FILE] [--cases FILE]

REPORT is the folder that `corewood run studies/organism.yaml` has written. A line per claim and fine-tuned model, then what
they say together. A claim whose tables are missing is not decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from claims import Claim, Found, Mark, in_markdown, main, report_tables, some
from scipy.stats import spearmanr

from corewood.analyse.ablation import BEYOND, widened
from corewood.analyse.differences import corrected
from corewood.analyse.generalisation import SAME
from corewood.analyse.verdicts import HANDLES
from corewood.report.skills import skill_of_better
from corewood.report.style import PAPER, PERCENT, coloured

HARD = "non-entailment"  # the answer of the cases that the shortcut gets wrong
LIST = "hard"  # what the study calls them, as a list
OVERLAP = "same word, other sentence"
HALF, SPARSE = 0.5, 0.7


class Subject:
    """One fine-tuned model's part of the tables."""

    def __init__(self, name: str, tables: dict[str, pd.DataFrame], task: str, tuning: int) -> None:
        self.name, self.tables, self.task, self.tuning = name, tables, task, tuning

    def __getitem__(self, table: str) -> pd.DataFrame:
        """Raises KeyError where the study did not ask for it."""
        rows = self.tables[table]
        return rows[(rows["task"] == self.task) & (rows["tuning"] == self.tuning)]

    def cases(self, target: float) -> pd.DataFrame:
        """Accuracy on the challenge cases: the full model's (`full`), and the mean over L0 subnetworks (`mean`)."""
        rows = self["spread"]
        return rows[
            (rows["way"] == "l0")
            & np.isclose(rows["target"], target)
            & (rows["domain"] == "challenge")
            & (rows["case"] != "all")
            & (rows["metric"] == "accuracy")
        ].set_index("case")

    @property
    def hard(self) -> list[str]:
        cases = self.cases(HALF)
        return list(cases.index[cases["gold"] == HARD])

    def handled(self) -> list[str]:
        """Hard cases where the full model's interval is above one half."""
        rows = self["dynamics"]
        last = rows[(rows["checkpoint"] == rows["checkpoint"].max()) & rows["case"].isin(self.hard)]
        return list(last.loc[last["low"] > HANDLES, "case"])

    def growth(self) -> pd.Series:
        """Checkpoint -> the full model's mean over hard cases; not at step 0, where answers are those of a new layer."""
        rows = self["dynamics"]
        rows = rows[rows["case"].isin(self.hard) & (rows["checkpoint"] > 0)]
        return rows.groupby("checkpoint")["value"].mean()


def spread(model: Subject) -> Found:
    pairs = model["differences"]
    pairs = pairs[pairs["way"] == "l0"]
    tested = corrected(pairs[pairs["dataset"] == "validation"])  # in domain alone, all sizes together: the rule of `spread`
    pairs, tested = (rows[np.isclose(rows["target"], SPARSE)] for rows in (pairs, tested))
    sizes = model["sizes"]
    sizes = sizes[(sizes["way"] == "l0") & (sizes["question"] == "prune") & np.isclose(sizes["target"], SPARSE)]
    good = set(sizes.loc[sizes["comparable"].astype(bool), "subnetwork"])
    inside = some(tested[tested["one"].isin(good) & tested["other"].isin(good)], "differences at 70 %")
    equal = inside[(inside["difference"].abs() <= SAME + 1e-9) & ~inside["real"]]
    outside = pairs[pairs["case"].isin(model.hard)].merge(equal[["one", "other"]], on=["one", "other"])
    real = outside[outside["real"]]
    apart = len(real.drop_duplicates(["one", "other"]))
    widest = outside.loc[outside["difference"].abs().idxmax()] if len(outside) else None
    gap = "" if widest is None else f"; widest gap {100 * abs(widest['difference']):.1f} points ({widest['case']})"
    return Found(f"{apart} of {len(equal)} pairs{gap}", apart > 0, apart == 0, marks(apart / max(1, len(equal))))


def core(model: Subject) -> Found:
    rows = model["core"]
    row = some(rows[(rows["way"] == "l0") & (rows["definition"] == "all")], "core, all").iloc[0]
    number = f"{row['heads']} heads, {row['expected_layers']:.2f} by chance, p {row['p_layers']:.2g}"
    return Found(number, row["p_layers"] < 0.01, row["p_layers"] > 0.05, marks(row["p_layers"]))


def early(model: Subject) -> Found:
    values = model.growth()
    halfway = (values.min() + values.iloc[-1]) / 2
    generalises = values.index[values >= halfway][0]
    rows = model["core_over_training"]
    rows = rows[(rows["way"] == "l0") & np.isclose(rows["target"], SPARSE) & (rows["checkpoint"] < generalises)]
    if rows.empty:
        return Found(f"generalises at step {generalises}: no checkpoint before it", False, False)
    row = rows.loc[rows["checkpoint"].idxmax()]
    number = (
        f"step {row['checkpoint']} (generalises at {generalises}): {row['shared_core']:.0f} of {row['heads_core']:.0f}, "
        f"{row['expected_core']:.1f} by chance, p {row['p_core']:.2g}; in the same layers {row['expected_core_layers']:.1f}, "
        f"p {row['p_core_layers']:.2g}"
    )
    share = row["share_of_core"]
    return Found(number, share >= 2 / 3 and row["p_core"] < 0.01, share <= 1 / 3, marks(share))


def attention(model: Subject) -> Found:
    rows, beside = model["attention"], model["attention_core"]
    rows = rows[(rows["kind"] == OVERLAP) & (rows["checkpoint"] == rows["checkpoint"].max())]
    beside = beside[(beside["kind"] == OVERLAP) & (beside["checkpoint"] == beside["checkpoint"].max())].iloc[0]
    most = rows.loc[rows["mean"].idxmax()]
    where = "in the core" if most["core"] else "not in the core"
    number = f"{most['unit']} ({100 * most['mean']:.0f} %) is {where}; delta {beside['delta']:.2f}, p {beside['p']:.2g}"
    return Found(number, bool(most["core"]) and beside["delta"] > 0, not most["core"], marks(beside["delta"]))


def sparser(model: Subject) -> Found:
    half, sparse, handled = model.cases(HALF), model.cases(SPARSE), model.handled()
    others = [case for case in half.index if case not in model.hard]
    fall, beside = (float((half["mean"] - sparse["mean"])[cases].mean()) for cases in (handled, others))
    skills = model["skills"]
    skills = skills[(skills["way"] == "l0") & (skills["case"] == "all") & (skills["metric"] == "auc")].set_index("target")
    auc = " to ".join(f"{skills.loc[target, 'mean']:.3f}" for target in (HALF, SPARSE))
    number = f"{len(handled)} hard cases fall by {100 * fall:.1f} points, counterparts by {100 * beside:.1f}; AUC {auc}"
    return Found(number, fall >= 0.05 and beside < fall / 2, fall < 0.02, marks(100 * fall))


def sizes(model: Subject, of: str) -> pd.DataFrame:
    """Effective size over training, two-sided, accuracies first; `decides` where it is no end of the grid and not trivial."""
    rows = model["effective_size"]
    rows = rows[(rows["way"] == "l0") & (rows["set"] == of) & (rows["order"] == "accuracies") & ~rows["one_sided"]]
    decides = ~rows["trivial"].astype(bool) & (rows["floor"] == 0) & (rows["ceiling"] == 0)
    return rows.assign(decides=decides).sort_values("checkpoint")


def size(model: Subject) -> Found:
    rows = some(sizes(model, LIST), f"effective_size of {LIST!r}")
    decides = rows[rows["decides"]]
    said = ", ".join(
        f"{row.checkpoint}: {100 * row.effective_size:.0f} %" + ("" if row.decides else " (decides nothing)")
        for row in rows.itertuples()
    )
    if len(decides) < 3 or decides["effective_size"].nunique() < 2:
        return Found(said, False, False)
    rho = float(spearmanr(decides["full"], decides["effective_size"])[0])
    grown = float(decides["effective_size"].iloc[-1] - decides["effective_size"].iloc[0])
    number = f"rho {rho:.2f}, growth {100 * grown:.0f} %; {said}"
    return Found(number, rho >= 0.8 and grown >= 0.2 - 1e-9, rho <= 0, marks(rho))


def removed(model: Subject) -> Found:
    row = on_hard(model).set_index("units").loc[BEYOND]
    values = row["change"], row["low"], row["high"]
    return Found(interval(*values), row["high"] < 0, row["high"] >= 0, (in_points(*values),))


def together(model: Subject) -> Found:
    rows = on_hard(model)
    rows = rows[rows["set"].str.contains("core") | (rows["set"].str.contains("top 3") & (rows["size"] == 3))]
    if rows.empty:
        raise KeyError("ablation, sets")
    low, high = widened(rows["interaction_low"], rows["interaction_high"], len(rows))
    said = [
        f"{row.units if row.size < 4 else 'core'} {interval(row.interaction, low[row.Index], high[row.Index])}"
        for row in rows.itertuples()
    ]
    each = tuple(in_points(row.interaction, low[row.Index], high[row.Index]) for row in rows.itertuples())
    return Found("; ".join(said), bool((high < 0).all()), bool((high >= 0).all()), each)


def on_hard(model: Subject) -> pd.DataFrame:
    rows = model["ablation"]
    last = rows["checkpoint"] == rows["checkpoint"].max()
    return rows[last & (rows["case"] == LIST) & (rows["metric"] == "accuracy") & (rows["domain"] == "challenge")]


def alone(model: Subject) -> Found:
    rows = model["core_alone"]
    rows = rows[(rows["domain"] == "challenge") & rows["way"].isin(["full", "core"])]
    right = rows.pivot_table(index="label", columns="way", values="right")
    change = right["core"] - right["full"]
    hard, others = float(change[HARD]), float(change.drop(HARD).mean())
    number = f"hard cases {100 * hard:+.1f} points, counterparts {100 * others:+.1f}"
    return Found(number, hard <= -0.2 and abs(others) <= 0.1, abs(hard) <= 0.05, marks(100 * hard))


def mlps(model: Subject) -> Found:
    rows = model["frequencies"]
    rows = rows[(rows["way"] == "l0") & np.isclose(rows["target"], HALF) & (rows["kind"] == "mlp")]
    least = some(rows, "frequencies at 50 %").loc[rows["share"].idxmin()]
    number = f"kept least: L{least['layer']}.MLP, by {least['count']} of {least['of']}"
    return Found(number, bool((rows["share"] == 1).all()), bool((rows["share"] < 0.5).any()), marks(least["share"]))


def competing(model: Subject) -> Found:
    rows = model["competing"]
    rows = rows[(rows["way"] == "l0 without") & np.isclose(rows["target"], HALF)]
    faithful = int(some(rows, "competing at 50 %")["faithful"].sum())
    kls = f"KL {rows['unseen_kl'].min():.4f} to {rows['unseen_kl'].max():.4f}, with the core {rows['lowest_kl'].iloc[0]:.4f}"
    share = faithful / len(rows)
    return Found(f"{faithful} of {len(rows)} faithful; {kls}", faithful == 0, share >= 0.5, marks(share))


def readiness(models: Sequence[Subject]) -> pd.DataFrame:
    """Of differences on single cases that are more than chance: is the better one better at the skill of that case, too? By the
    rule of the report."""
    rows = []
    for model, target in product(models, (HALF, SPARSE)):
        cases = model.cases(target)
        pairs = model["differences"]
        pairs = pairs[(pairs["way"] == "l0") & np.isclose(pairs["target"], target) & pairs["case"].isin(cases.index)]
        tests = model["skill_differences"]
        tests = tests[(tests["way"] == "l0") & np.isclose(tests["target"], target)].set_index(["case", "one", "other"])
        found = dict.fromkeys(("alike", "no better", "unsure", "better"), 0)
        for pair in pairs[pairs["real"]].itertuples():
            test = tests.loc[(cases.loc[pair.case, "skill"], pair.one, pair.other)]
            ends = test["difference"], test["low"], test["high"]
            found[skill_of_better(*(ends if pair.difference > 0 else (-ends[0], -ends[2], -ends[1])))] += 1
        rows.append({"of": model.name, "removed": f"{100 * target:g} %", "comparisons": len(pairs), **found})
    return pd.DataFrame(rows)


def growth(models: Sequence[Subject]) -> Any:
    """Effective size against generalisation. A line per fine-tuning, from its first checkpoint to its last; hollow points
    decide nothing: an end of the grid, or a full model at the floor."""
    parts = []
    for of, words in (("in domain", "in domain"), (LIST, "on the hard cases")):
        for model in models:
            rows = sizes(model, of)
            facts = {"model": model.name, "of": words, "right": rows["checkpoint"].map(model.growth())}
            parts.append(rows.assign(**facts)[["checkpoint", "model", "of", "right", "effective_size", "decides"]])
    table = pd.concat(parts, ignore_index=True)
    panels = []
    for words, part in table.groupby("of", sort=False):
        base = alt.Chart(part).encode(
            x=alt.X("right:Q", title="full model, mean over hard cases", axis={"format": PERCENT}, scale={"domain": [0, 1]}),
            y=alt.Y("effective_size:Q", title="share of units kept", axis={"format": PERCENT}, scale={"domain": [0, 1]}),
            color=coloured("model", [model.name for model in models]),
        )
        lines = base.mark_line(strokeWidth=1.5).encode(order="checkpoint:Q")
        dots = base.mark_point(size=60, opacity=1, strokeWidth=1.5).encode(
            fill=alt.condition("datum.decides", coloured("model", [model.name for model in models]), alt.value(PAPER))
        )
        title = {"text": f"Effective size {words}", "anchor": "start"}
        panels.append(alt.layer(lines, dots).properties(width=360, height=280, title=title))
    return alt.hconcat(*panels)


def cases(models: Sequence[Subject]) -> Any:
    """Effective size of each hard case, from the checkpoint on where the full model gets half of it right."""
    learnt = {}
    for model in models:
        rows = pd.concat([sizes(model, case) for case in model.hard])
        learnt[model.name] = rows[rows["full"] >= HALF].rename(columns={"set": "case"})
    names = [case for case in models[0].hard if any((rows["case"] == case).any() for rows in learnt.values())]
    panels = []
    for name, rows in learnt.items():
        base = alt.Chart(rows).encode(
            x=alt.X("checkpoint:Q", title="fine-tuning step", scale={"zero": False}, axis={"tickCount": 4}),
            y=alt.Y(
                "effective_size:Q",
                title="share of units kept",
                axis={"format": PERCENT, "tickCount": 5},
                scale={"domain": [0, 1]},
            ),
            color=coloured("case", names),
        )
        layers = base.mark_line(), base.mark_point(filled=True, size=50, opacity=1)
        panels.append(alt.layer(*layers).properties(title=name, width=230, height=200))
    return alt.concat(*panels, columns=3)


def marks(value: float) -> tuple[Mark, ...]:
    return (Mark(float(value)),)


def in_points(value: float, low: float, high: float) -> Mark:
    return Mark(100 * value, 100 * low, 100 * high)


def interval(value: float, low: float, high: float) -> str:
    return f"{100 * value:+.1f} points ({100 * low:+.1f} to {100 * high:+.1f})"


CLAIMS = {
    "HC1": Claim(
        "equal in domain, different outside",
        spread,
        axis="pairs equal in domain that differ on a hard case, share",
        ends=(0, 1),
        yes=(0.001, 1),
        no=(0, 0.001),
    ),
    "HC2": Claim(
        "a core beyond chance",
        core,
        axis="p, with as many heads in each layer",
        ends=(1e-4, 1),
        yes=(1e-4, 0.01),
        no=(0.05, 1),
        log=True,
    ),
    "HC3": Claim(
        "the core is there early",
        early,
        axis="share of the core that is there before the model generalises",
        ends=(0, 1),
        yes=(2 / 3, 1),
        no=(0, 1 / 3),
    ),
    "HC4": Claim(
        "core heads look for shared words",
        attention,
        axis="Cliff's delta, core against other heads",
        ends=(-1, 1),
        yes=(0, 1),
        no=(0, 0),
    ),
    "HC5": Claim(
        "sparser means more heuristic",
        sparser,
        axis="fall of hard cases from 50 to 70 % removed, points",
        ends=(0, 30),
        yes=(5, 30),
        no=(0, 2),
    ),
    "HC6": Claim(
        "effective size grows with generalisation",
        size,
        axis="Spearman's rho over checkpoints",
        ends=(-1, 1),
        yes=(0.8, 1),
        no=(-1, 0),
    ),
    "HC7": Claim(
        "removing core heads hurts hard cases",
        removed,
        axis="change by core heads less that by others, points",
        ends=(-5, 5),
        yes=(-5, 0),
        no=(0, 5),
    ),
    "HC8": Claim(
        "more than the sum of its parts",
        together,
        axis="interaction on hard cases, points",
        ends=(-60, 60),
        yes=(-60, 0),
        no=(0, 60),
    ),
    "HC9": Claim(
        "the core alone does not generalise",
        alone,
        axis="hard cases, core alone less full model, points",
        ends=(-60, 60),
        yes=(-60, -20),
        no=(-5, 5),
    ),
    "HC10": Claim(
        "no MLP is pruned at 50 %",
        mlps,
        axis="share of subnetworks that keep the MLP kept least",
        ends=(0, 1),
        yes=(0.999, 1),
        no=(0, 0.5),
    ),
    "HC11": Claim(
        "no competing subnetwork",
        competing,
        axis="share of searches without the core that are faithful",
        ends=(0, 1),
        yes=(0, 0.001),
        no=(0.5, 1),
    ),
}


def subjects(report: Path) -> list[Subject]:
    tables, name = report_tables(report), report.name.removesuffix("-report")
    models = tables["models"][["task", "tuning"]].itertuples(index=False)
    return [Subject(f"{name} {tuning}", tables, task, tuning) for task, tuning in models]


def decide() -> None:
    models = main(str(__doc__), CLAIMS, subjects, {"growth": growth, "cases": cases})
    print(f"\nDifferences on single cases that are more than chance, and skill\n\n{in_markdown(readiness(models))}")


if __name__ == "__main__":
    decide()
