"""Decide the claims of When BERT Plays the Lottery by the rules of docs/evidence.md, from the tables of a report.

    .venv/bin/python bench/lottery.py REPORT [--picture FILE]

REPORT is the folder that `corewood run studies/tickets-gte.yaml` has written; bench/results/tickets-gte has the tables of the
run that docs/evidence.md tells of. A line per claim and task, then what the tasks say together. A claim whose tables or rows
are missing is not decided.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from claims import Claim, Found, Mark, main, report_tables, some
from scipy.stats import t

GOOD, RANDOM, BAD = "good", "random", "bad"
IMPORTANCE, MAGNITUDE, SUPER = "importance", "magnitude", "super-survivors"
PRUNED, RETRAINED = "pruned", "retrained"


class Subject:
    """A task's part of the tables."""

    def __init__(self, name: str, tables: dict[str, pd.DataFrame], task: str) -> None:
        self.name, self.tables, self.task = name, tables, task

    def __getitem__(self, table: str) -> pd.DataFrame:
        rows = self.tables[table]
        return rows[rows["task"] == self.task]

    def tickets(self, way: str, ticket: str, state: str) -> pd.DataFrame:
        """Of the study's own training budget."""
        rows = self["tickets"].dropna(subset="mean")
        return rows[(rows["way"] == way) & (rows["ticket"] == ticket) & (rows["state"] == state) & (rows["epochs"] == 0)]

    def has(self, way: str, ticket: str, state: str) -> bool:
        return len(self.tickets(way, ticket, state)) > 0

    def ticket(self, way: str, ticket: str, state: str) -> pd.Series:
        return some(self.tickets(way, ticket, state), f"tickets: {way}, {ticket}, {state}").iloc[0]

    @property
    def full(self) -> float:
        return float(self.row("full")["mean"])

    @property
    def majority(self) -> float:
        return float(self.row("majority")["mean"])

    def row(self, way: str) -> pd.Series:
        rows = self["tickets"]
        return some(rows[rows["way"] == way], f"tickets: {way}").iloc[0]

    def by_tuning(self, way: str, ticket: str, state: str) -> pd.Series:
        """Seed of the fine-tuning -> score in domain, the mean of several draws."""
        rows = self["scores"]
        rows = rows[(rows["domain"] == "in-domain") & (rows["way"] == way) & (rows["ticket"] == ticket)]
        rows = some(rows[(rows["state"] == state) & (rows["epochs"] == 0)], f"scores: {way}, {ticket}, {state}")
        return rows.groupby("tuning")["value"].mean()


def held(task: Subject) -> Found:
    of, said = [], [f"full {task.full:.2f}"]
    for way in (IMPORTANCE, MAGNITUDE):
        row = task.ticket(way, GOOD, PRUNED)
        of.append(row["mean"] / row["beside"])
        said.append(f"{way} {row['mean']:.2f}, {of[-1]:.2f} of it ({100 * row['encoder_share']:.0f} % stay)")
    return Found("; ".join(said), min(of) >= 0.9, max(of) < 0.8, tuple(map(Mark, of)))


def winning(task: Subject) -> Found:
    row = task.ticket(MAGNITUDE, GOOD, RETRAINED)
    number = f"{row['mean']:.2f} ± {row['std']:.2f}, full {row['beside']:.2f} ({100 * row['encoder_share']:.0f} % stay)"
    beyond = (row["mean"] - row["beside"]) / task.row("full")["std"]
    return Found(number, bool(row["as_full"]), not row["as_full"], (Mark(beyond),))


def random_as_good(task: Subject) -> Found:
    """The interval is that of the differences, as a share of what the good ones have above the majority class."""
    good, drawn = (task.by_tuning(IMPORTANCE, ticket, RETRAINED) for ticket in (GOOD, RANDOM))
    apart = (good - drawn).to_numpy() / (float(good.mean()) - task.majority)
    low, high = t_interval(apart)
    number = f"{good.mean():.2f} and {drawn.mean():.2f}: {apart.mean():.2f} ({low:.2f} to {high:.2f})"
    return Found(number, high < 0.25, low > 0.25, (Mark(float(apart.mean()), low, high),))


def t_interval(values: np.ndarray) -> tuple[float, float]:
    """95 %"""
    half = float(t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    return float(values.mean()) - half, float(values.mean()) + half


def retrainable(task: Subject) -> Found:
    """Importance decides, of which the paper says so; magnitude stands beside it, where it was retrained."""
    shares, said = {}, []
    for way in (IMPORTANCE, *([MAGNITUDE] if task.has(MAGNITUDE, BAD, RETRAINED) else [])):
        row = task.ticket(way, BAD, RETRAINED)
        shares[way] = (row["mean"] - task.majority) / (task.full - task.majority)
        said.append(f"{way} {row['mean']:.2f}, {shares[way]:.2f} ({100 * row['in_good']:.0f} % of it in the good one)")
    decides = shares[IMPORTANCE]
    return Found("; ".join(said), decides >= 0.67, decides < 0.33, (Mark(decides),))


def unstable(task: Subject) -> Found:
    rows = task["stability"]
    rows = rows[(rows["way"] == IMPORTANCE) & (rows["over"] == "fine-tunings") & (rows["kind"] == "head")]
    row = some(rows, "stability over fine-tunings").iloc[0]
    number = (
        f"kappa {row['fleiss']:.2f} of {row['masks']} masks of {row['smallest']} to {row['largest']} heads; by chance "
        f"{row['fleiss_expected']:.2f} (p {row['fleiss_p']:.2g}), with as many in each layer "
        f"{row['fleiss_expected_layers']:.2f} (p {row['fleiss_p_layers']:.2g})"
    )
    return Found(number, row["fleiss"] < 0.4, row["fleiss"] > 0.6, (Mark(row["fleiss"]),))


def shared(task: Subject) -> Found:
    """With the other tasks of the report."""
    rows = task.tables["overlaps"]
    mine = (rows["one"] == task.task) | (rows["other"] == task.task)
    rows = rows[mine & (rows["one"] != rows["other"]) & (rows["way"] == IMPORTANCE)]
    rows = some(rows[(rows["kind"] == "head") & (rows["which"] == "all units")], "overlaps")
    said = [f"{r.one} and {r.other} {r.shared:.1f}, by chance {r.expected:.1f}, p {r.p_whole:.2g}" for r in rows.itertuples()]
    beyond = (rows["shared"] > rows["expected"]) & (rows["p_whole"] < 0.05)
    return Found("; ".join(said), bool(beyond.all()), bool((rows["p_whole"] > 0.2).all()), tuple(map(Mark, rows["p_whole"])))


def patterns(task: Subject) -> Found:
    rows = task["heterogeneity"]
    rows = rows[rows["state"] == "fine-tuned"]
    rows = some(rows[rows["r"].notna()], "heterogeneity: heads that differ")
    said = [f"{r.attention} r {r.r:.2f} (p {r.p:.2g})" for r in rows.itertuples()]
    strong = (rows["r"].abs() >= 0.3) & (rows["p"] < 0.05)
    size = rows["r"].abs()
    return Found("; ".join(said), bool((size < 0.2).all()), bool(strong.all()), tuple(map(Mark, size)))


def survivors(task: Subject) -> Found:
    row = task.ticket(SUPER, GOOD, RETRAINED)
    loss = task.full - row["mean"]
    number = f"{row['mean']:.2f}, full {task.full:.2f}: {100 * loss:.0f} points ({100 * row['encoder_share']:.0f} % stay)"
    return Found(number, loss <= 0.10, loss > 0.20, (Mark(100 * loss),))


CLAIMS = {
    "LT1": Claim(
        "good subnetworks hold 90 % of the score",
        held,
        axis="score, as a share of the full model's",
        ends=(0.5, 1.1),
        yes=(0.9, 1.1),
        no=(0.5, 0.8),
    ),
    "LT2": Claim(
        "magnitude tickets win after retraining",
        winning,
        axis="retrained less full model, in its standard deviations",
        ends=(-5, 5),
        yes=(-1, 5),
        no=(-5, -1),
    ),
    "LT3": Claim(
        "random ones are close to good ones",
        random_as_good,
        axis="good less random, as a share of good less majority",
        ends=(-1, 2),
        yes=(-1, 0.25),
        no=(0.25, 2),
    ),
    "LT4": Claim(
        "bad ones can be retrained",
        retrainable,
        axis="bad less majority, as a share of full less majority",
        ends=(0, 1),
        yes=(0.67, 1),
        no=(0, 0.33),
    ),
    "LT5": Claim(
        "which units survive is unstable",
        unstable,
        axis="Fleiss' kappa over fine-tunings, heads",
        ends=(-0.2, 1),
        yes=(-0.2, 0.4),
        no=(0.6, 1),
    ),
    "LT6": Claim(
        "tasks share more than chance",
        shared,
        axis="p, heads shared with another task",
        ends=(1e-4, 1),
        yes=(1e-4, 0.05),
        no=(0.2, 1),
        log=True,
    ),
    "LT7": Claim(
        "pattern types do not explain survival",
        patterns,
        axis="correlation of survival and heterogeneous maps, size",
        ends=(0, 1),
        yes=(0, 0.2),
        no=(0.3, 1),
    ),
    "LT8": Claim(
        "super-survivors lose little",
        survivors,
        axis="full model less super-survivors, points",
        ends=(-10, 40),
        yes=(-10, 10),
        no=(20, 40),
    ),
}


def subjects(report: Path) -> list[Subject]:
    tables = report_tables(report)
    return [Subject(task, tables, task) for task in tables["models"]["task"].unique()]


def decide() -> None:
    main(str(__doc__), CLAIMS, subjects)


if __name__ == "__main__":
    decide()
