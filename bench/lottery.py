"""Decide the claims of When BERT Plays the Lottery by the rules of docs/evidence.md, from the tables of a report.

    .venv/bin/python bench/lottery.py REPORT

REPORT is the folder that `corewood run studies/tickets-gte.yaml` has written; bench/results/tickets-gte has the tables of the
run that docs/evidence.md tells of. A line per claim and task, then what the tasks say together. A claim whose tables or rows
are missing is not decided.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from evidence import Found, judged, some
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
        return self.mean("full")

    @property
    def majority(self) -> float:
        return self.mean("majority")

    def mean(self, way: str) -> float:
        rows = self["tickets"]
        return float(some(rows[rows["way"] == way], f"tickets: {way}").iloc[0]["mean"])

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
    return Found("; ".join(said), min(of) >= 0.9, max(of) < 0.8)


def winning(task: Subject) -> Found:
    row = task.ticket(MAGNITUDE, GOOD, RETRAINED)
    number = f"{row['mean']:.2f} ± {row['std']:.2f}, full {row['beside']:.2f} ({100 * row['encoder_share']:.0f} % stay)"
    return Found(number, bool(row["as_full"]), not row["as_full"])


def random_as_good(task: Subject) -> Found:
    """The interval is that of the differences, as a share of what the good ones have above the majority class."""
    good, drawn = (task.by_tuning(IMPORTANCE, ticket, RETRAINED) for ticket in (GOOD, RANDOM))
    apart = (good - drawn).to_numpy() / (float(good.mean()) - task.majority)
    low, high = t_interval(apart)
    number = f"{good.mean():.2f} and {drawn.mean():.2f}: {apart.mean():.2f} ({low:.2f} to {high:.2f})"
    return Found(number, high < 0.25, low > 0.25)


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
    return Found("; ".join(said), shares[IMPORTANCE] >= 0.67, shares[IMPORTANCE] < 0.33)


def unstable(task: Subject) -> Found:
    rows = task["stability"]
    rows = rows[(rows["way"] == IMPORTANCE) & (rows["over"] == "fine-tunings") & (rows["kind"] == "head")]
    row = some(rows, "stability over fine-tunings").iloc[0]
    number = (
        f"kappa {row['fleiss']:.2f} of {row['masks']} masks of {row['smallest']} to {row['largest']} heads; by chance "
        f"{row['fleiss_expected']:.2f} (p {row['fleiss_p']:.2g}), with as many in each layer "
        f"{row['fleiss_expected_layers']:.2f} (p {row['fleiss_p_layers']:.2g})"
    )
    return Found(number, row["fleiss"] < 0.4, row["fleiss"] > 0.6)


def shared(task: Subject) -> Found:
    """With the other tasks of the report."""
    rows = task.tables["overlaps"]
    mine = (rows["one"] == task.task) | (rows["other"] == task.task)
    rows = rows[mine & (rows["one"] != rows["other"]) & (rows["way"] == IMPORTANCE)]
    rows = some(rows[(rows["kind"] == "head") & (rows["which"] == "all units")], "overlaps")
    said = [f"{r.one} and {r.other} {r.shared:.1f}, by chance {r.expected:.1f}, p {r.p_whole:.2g}" for r in rows.itertuples()]
    beyond = (rows["shared"] > rows["expected"]) & (rows["p_whole"] < 0.05)
    return Found("; ".join(said), bool(beyond.all()), bool((rows["p_whole"] > 0.2).all()))


def patterns(task: Subject) -> Found:
    rows = task["heterogeneity"]
    rows = rows[rows["state"] == "fine-tuned"]
    rows = some(rows[rows["r"].notna()], "heterogeneity: heads that differ")
    said = [f"{r.attention} r {r.r:.2f} (p {r.p:.2g})" for r in rows.itertuples()]
    strong = (rows["r"].abs() >= 0.3) & (rows["p"] < 0.05)
    return Found("; ".join(said), bool((rows["r"].abs() < 0.2).all()), bool(strong.all()))


def survivors(task: Subject) -> Found:
    row = task.ticket(SUPER, GOOD, RETRAINED)
    loss = task.full - row["mean"]
    number = f"{row['mean']:.2f}, full {task.full:.2f}: {100 * loss:.0f} points ({100 * row['encoder_share']:.0f} % stay)"
    return Found(number, loss <= 0.10, loss > 0.20)


CLAIMS: dict[str, tuple[str, Callable[[Subject], Found]]] = {
    "LT1": ("good subnetworks hold 90 % of the score", held),
    "LT2": ("magnitude tickets win after retraining", winning),
    "LT3": ("random ones are close to good ones", random_as_good),
    "LT4": ("bad ones can be retrained", retrainable),
    "LT5": ("which units survive is unstable", unstable),
    "LT6": ("tasks share more than chance", shared),
    "LT7": ("pattern types do not explain survival", patterns),
    "LT8": ("super-survivors lose little", survivors),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path)
    report = parser.parse_args().report
    tables = {path.stem: pd.read_parquet(path) for path in (report / "tables").glob("*.parquet")}
    judged(CLAIMS, [Subject(task, tables, task) for task in tables["models"]["task"].unique()])


if __name__ == "__main__":
    main()
