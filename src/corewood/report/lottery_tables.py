"""Tables of a lottery: facts a reader looks up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from corewood.analyse.tickets import KEYS
from corewood.evaluate.generated_maps import TYPES
from corewood.report.method_charts import METHODS, compared
from corewood.report.style import Tables, percent
from corewood.report.tables import Formats, html_table, share, significant, whole
from corewood.report.ticket_charts import (
    IMPORTANCE,
    MAGNITUDE,
    SPOKEN,
    STATES,
    SUPER,
    TICKETS,
    UNTRAINED,
    first_prune,
    of_tickets,
    plus_minus,
    tasks_of,
    totals,
)

AVERAGE = "average"
MISSING = "a task is missing"
NOTED = "†"
ALONE = {"both": "s-pruning, both", "heads": "s-pruning, heads alone", "mlps": "s-pruning, MLPs alone"}


# scores


def table_rows(summary: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Row of the paper's table 3 -> its lines of the summary, one per task."""
    own = of_tickets(summary)
    found = {"majority class": own[own["method"] == "majority"], "full model": own[own["method"] == "full"]}
    for method in (IMPORTANCE, SUPER, MAGNITUDE):
        mine = own[own["method"] == method]
        for ticket in TICKETS:
            for state in STATES:
                rows = mine[(mine["ticket"] == ticket) & (mine["state"] == state)]
                found[f"{SPOKEN[method]}: {ticket}, {state}"] = rows
        if method == IMPORTANCE:
            others = summary[(summary["method"] == method) & (summary["prune"] != first_prune(summary))]
            found |= {f"{ALONE.get(str(p), str(p))}: good, pruned": rows for p, rows in others.groupby("prune", sort=False)}
    found["untrained model: random, trained"] = own[own["method"] == UNTRAINED]
    return {name: rows for name, rows in found.items() if len(rows)}


def cell(row: pd.Series, noted: bool) -> str:
    """0.51 ± 0.04, with a star where it reaches the full model, and what must be known about it."""
    dagger = NOTED if noted else ""
    if pd.isna(row["mean"]):
        return f"undefined{dagger}" if row["undefined"] else "–"
    text = plus_minus(row["mean"], row["std"]).replace(" ", "\u00a0")
    star = "*" if row["as_full"] and row["method"] not in ("full", "majority") else ""
    missing = f" ({row['seeds']} of {row['seeds'] + row['undefined']} seeds)" if row["undefined"] else ""
    return text + star + dagger + missing


def notes_of(tables: Tables) -> pd.DataFrame:
    """Scores of the report sets that came with a remark."""
    scores = tables["scores"]
    found: pd.DataFrame = scores[
        (scores["part"] == "tickets") & (scores["dataset"] == "report") & scores["note"].fillna("").ne("")
    ]
    return found


def wide(tables: Tables, rows: Mapping[str, pd.DataFrame], average: bool = False) -> str | None:
    """Rows by tasks; the average is over tasks, and only where none is missing."""
    if not rows:
        return None
    tasks = tasks_of(tables)
    noted = set(notes_of(tables)[KEYS].itertuples(index=False, name=None))
    lines = []
    for name, part in rows.items():
        line: dict[str, Any] = {"": name}
        means = part.set_index("task")["mean"].reindex(tasks)
        cells = {r["task"]: cell(r, tuple(r[KEYS]) in noted) for _, r in part.iterrows()}
        line |= {task: cells.get(task, "–") for task in tasks}
        if average and len(tasks) > 1:
            line[AVERAGE] = MISSING if means.isna().any() else f"{means.mean():.3f}".replace("-", "\u2212")
        lines.append(line)
    return html_table(pd.DataFrame(lines), {})


def scores_table(tables: Tables) -> str | None:
    """Table 3."""
    return wide(tables, table_rows(tables["summary"]))


def bad_table(tables: Tables) -> str | None:
    """Table 2."""
    every = table_rows(tables["summary"])
    names = {
        "majority class": "majority class",
        "s-pruning: bad, retrained": "bad by s-pruning, retrained",
        "m-pruning: bad, retrained": "bad by m-pruning, retrained",
        "untrained model: random, trained": "untrained model under a random mask, trained",
    }
    rows = {names[name]: every[name] for name in names if name in every}
    return wide(tables, rows, average=True) if len(rows) > 1 else None


def longer_table(tables: Tables) -> str | None:
    """Appendix D: bad subnetworks retrained for longer; 0 epochs are those of the study."""
    summary = tables["summary"]
    bad = summary[(summary["method"] == IMPORTANCE) & (summary["ticket"] == "bad") & (summary["state"] == "retrained")]
    if not (bad["epochs"] > 0).any():
        return None
    rows = {
        "as long as fine-tuning" if epochs == 0 else f"{epochs:g} epochs": part
        for epochs, part in bad.groupby("epochs")  # sorted: the study's own first
    }
    return wide(tables, rows, average=True)


def notes_table(tables: Tables) -> str | None:
    """What to know about scores, and which are no numbers."""
    rows = notes_of(tables)
    if rows.empty:
        return None
    rows = rows.assign(
        who=rows["method"].map(SPOKEN).fillna(rows["method"]).where(rows["method"] != "full", "full model")
        + (": " + rows["ticket"] + " " + rows["state"]).where(rows["method"].isin(list(SPOKEN)), ""),
        which=rows["prune"].map({"heads": "heads alone", "mlps": "MLPs alone"}).fillna(""),
    )
    grouped = rows.groupby(["task", "note", "who", "which"], sort=False)
    table = grouped.agg(scores=("note", "size"), value=("value", "first")).reset_index()
    lines = []
    for (task, note), part in table.groupby(["task", "note"], sort=False):
        whom = [f"{w}{' (' + a + ')' if a else ''}" for w, a in zip(part["who"], part["which"], strict=True)]
        counts = [f"{name} × {n}" if n > 1 else name for name, n in zip(whom, part["scores"], strict=True)]
        lines.append({"task": task, "what": note, "scores": part["scores"].sum(), "whose": "; ".join(counts)})
    return html_table(pd.DataFrame(lines), {"scores": whole})


# tickets


def in_good_table(tables: Tables) -> str | None:
    """How much of random and bad tickets is in the good one, beside what a random draw would have."""
    if "tickets" not in tables:
        return None
    rows = tables["tickets"]
    rows = of_tickets(rows[(rows["part"] == "tickets") & (rows["ticket"] != "good")])
    if rows.empty:
        return None
    total = totals(tables)
    wanted = ["heads", "mlps", "weights", "heads_in_good", "mlps_in_good"]
    rows = rows.reindex(columns=[*rows.columns, *(c for c in wanted if c not in rows)])
    heads, mlps = rows["heads"] / total["head"], rows["mlps"] / total["mlp"]  # chance that a unit is in the good one
    count = (rows["heads"] + rows["mlps"]).where(lambda n: n > 0)
    units = (rows["heads"] * heads + rows["mlps"] * mlps) / count
    rows["heads_chance"] = heads.where(rows["heads_in_good"].notna())
    rows["mlps_chance"] = mlps.where(rows["mlps_in_good"].notna())
    chance = units.where(rows["method"] != MAGNITUDE, rows["weights"] / total["weights"])
    rows["chance"] = chance.where(rows["in_good"].notna())
    chances = ["heads_chance", "mlps_chance", "chance"]
    rows.loc[rows["method"] == SUPER, chances] = np.nan  # their counterparts are drawn from the other units
    fields = ["heads_in_good", "heads_chance", "mlps_in_good", "mlps_chance", "in_good", "chance"]
    table = rows.groupby(["task", "method", "ticket"], sort=False)[fields].mean().reset_index()
    table["method"] = table["method"].map(SPOKEN)
    names = {
        "heads_in_good": "its heads in good", "heads_chance": "by chance", "mlps_in_good": "its MLPs in good",
        "mlps_chance": "by chance", "in_good": "all of it in good", "chance": "by chance",
    }  # fmt: skip
    return html_table(table, dict.fromkeys(fields, share), names)


# stability


def stability_table(tables: Tables) -> str | None:
    if "stability" not in tables:
        return None
    table = tables["stability"].copy()
    if table.empty:
        return None
    table["kind"] = table["kind"].map({"head": "heads", "mlp": "MLPs"})
    table["prune"] = table["prune"].map({"both": "both", "heads": "heads alone", "mlps": "MLPs alone"})
    table["size"] = [
        f"{low} to {high} of {n}".replace(" ", "\u00a0")
        for low, high, n in zip(table["smallest"], table["largest"], table["units"], strict=True)
    ]
    columns = ["task", "prune", "kind", "masks", "size"]
    columns += ["fleiss", "fleiss_expected", "fleiss_p", "fleiss_expected_layers", "fleiss_p_layers"]
    columns += ["survivors", "survivors_expected", "survivors_p", "survivors_expected_layers", "survivors_p_layers", "q_p"]
    formats: dict[str, Any] = dict.fromkeys(columns[3:], significant) | {"masks": whole, "survivors": whole}
    del formats["size"]
    formats |= dict.fromkeys((c for c in columns if c.startswith("fleiss") and "_p" not in c), two_digits)
    names = {
        "prune": "pruned", "masks": "seeds", "size": "kept", "fleiss": "Fleiss' kappa", "fleiss_expected": "by chance",
        "fleiss_p": "p", "fleiss_expected_layers": "by chance, same layers", "fleiss_p_layers": "p, same layers",
        "survivors": "super-survivors", "survivors_expected": "by chance", "survivors_p": "p",
        "survivors_expected_layers": "by chance, same layers", "survivors_p_layers": "p, same layers",
        "q_p": "same sizes? (Cochran's Q, p)",
    }  # fmt: skip
    return html_table(table[columns], formats, names)


def two_digits(value: Any) -> str:
    text = f"{value:.2f}".replace("-", "\u2212")
    return "0.00" if text == "\u22120.00" else text


# patterns


def heterogeneity_table(tables: Tables) -> str | None:
    if "heterogeneity" not in tables:
        return None
    columns = ["task", "state", "attention", "heads", "survivors", "r", "p"]
    formats: Formats = {"heads": whole, "survivors": whole, "r": two_digits, "p": significant}
    names = {"survivors": "super-survivors", "r": "Pearson's r", "heads": "heads"}
    return html_table(tables["heterogeneity"][columns], formats, names)


def quality_table(tables: Tables) -> str | None:
    """F1 by type, with how many maps it rests on."""
    if "pattern_quality" not in tables:
        return None
    lines = []
    for (name, attention), part in tables["pattern_quality"].groupby(["set", "attention"], sort=False):
        line: dict[str, Any] = {"maps": name, "attention": attention}
        for kind in (*TYPES, "weighted"):
            row = part[part["type"] == kind].dropna(subset="f1")
            line[kind] = f"{row['f1'].iloc[0]:.2f} ({row['support'].iloc[0]})" if len(row) else "–"
        lines.append(line)
    return html_table(pd.DataFrame(lines), {})


# methods


def methods_table(tables: Tables) -> str | None:
    """Accuracy with its interval; a star where the difference from L0 leaves out zero."""
    rows = compared(tables)
    if rows is None:
        return None
    lines = []
    keys = ["task", "target", "where", "n", "models"]
    rows = rows.sort_values(["domain"], ascending=False, kind="stable")
    for task in dict.fromkeys(rows["task"]):
        for (_, target, case, n, models), part in rows[rows["task"] == task].groupby(keys, sort=False):
            line: dict[str, Any] = {
                "task": task,
                "size": percent(target).replace(" ", "\u00a0"),
                "case": case,
                "examples": n,
                "models": models,
            }
            by = part.set_index("method")
            for method, name in METHODS.items():
                if method in by.index:
                    row = by.loc[method]
                    star = "*" if row["real"] else ""
                    line[name] = f"{100 * row['value']:.1f}{star} [{100 * row['low']:.1f}, {100 * row['high']:.1f}]"
            lines.append(line)
    return html_table(pd.DataFrame(lines), {"examples": whole, "models": whole})
