"""Tables of the page: facts a reader looks up, sortable by a click."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from typing import Any

import pandas as pd

from corewood.analyse.ablation import OUTSIDE
from corewood.analyse.behaviour import mostly
from corewood.analyse.generalisation import full_model, judged, subnetworks
from corewood.report.style import Tables, percent, where

Format = Callable[[Any], str]
Formats = Mapping[str, Format]
COLUMNS = 8  # cases that fit beside each other


def share(value: Any) -> str:
    return f"{100 * value:.1f} %"


def points(value: Any) -> str:
    """A change of accuracy; a minus sign that is one."""
    return "0.0" if abs(value) < 0.0005 else f"{100 * value:+.1f}".replace("-", "\u2212")


def significant(value: Any) -> str:
    return f"{value:.3g}"


def nats(value: Any) -> str:
    return f"{value:.4f}"


def whole(value: Any) -> str:
    return f"{value:.0f}"


def html_table(table: pd.DataFrame, formats: Formats, headings: Mapping[str, str] | None = None) -> str:
    """Columns without a format are text. What is missing is a dash."""
    names = headings or {}
    head = "".join(f"<th>{escape(str(names.get(c, c)))}</th>" for c in table.columns)
    body = []
    for row in table.itertuples(index=False):
        cells = []
        for column, value in zip(table.columns, row, strict=True):
            known = not pd.isna(value)
            form = formats.get(str(column))
            text = "\u2013" if not known else form(value) if form else str(value)
            raw = (value if known else -1e9) if form else value
            kind = "" if form else ' class="text"'
            cells.append(f'<td{kind} data-value="{escape(str(raw))}">{escape(text)}</td>')
        body.append(f"<tr>{''.join(cells)}</tr>")
    return (
        f'<div class="wide"><table class="sortable"><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'
    )


def subnetwork_table(tables: Tables) -> str | None:
    """One row per subnetwork."""
    if "sizes" not in tables:
        return None
    accuracy = pd.concat([full_model(tables["accuracy"]), subnetworks(tables["accuracy"])])
    cases = judged(accuracy)
    challenge = cases[cases["domain"] == "challenge"].groupby("subnetwork")["value"]
    kept = ["target", "seed", "held_kl", "heads", "mlps", "units", "encoder_share", "all_share"]
    table = tables["sizes"].set_index("subnetwork")[kept].copy()
    inside = accuracy[accuracy["domain"] == "in-domain"].set_index("subnetwork")
    table["in domain"], table["agrees with full"], table["KL"] = inside["value"], inside["agreement"], inside["kl"]
    if len(challenge):
        table["cases, mean"], table["worst case"] = challenge.mean(), challenge.min()
    shares = ("target", "encoder_share", "all_share", "in domain", "agrees with full", "cases, mean", "worst case")
    formats: Formats = dict.fromkeys(kept, whole) | dict.fromkeys(shares, share) | dict.fromkeys(("KL", "held_kl"), nats)
    names = {
        "target": "sparsity",
        "held_kl": "held-out KL",
        "mlps": "MLPs",
        "encoder_share": "encoder",
        "all_share": "parameters",
    }
    if tables["sizes"]["nested"].any():
        table["nested"] = tables["sizes"].set_index("subnetwork")["nested"].map({True: "yes", False: "no"})
    return html_table(table.reset_index(), formats, names)


def convergence_table(tables: Tables) -> str | None:
    """How the searches of each size ended."""
    if "convergence" not in tables:
        return None
    formats: Formats = dict.fromkeys(("gap", "gap_comparable", "gap_best_half", "target"), share)
    formats = {**formats, **dict.fromkeys(("lowest", "highest"), nats), "ratio": "{:.1f}".format}
    formats = {**formats, "rho": "{:+.2f}".format, "p": significant, "searches": whole, "ended": whole, "comparable": whole}
    names = {
        "target": "sparsity",
        "ended": "ended by themselves",
        "lowest": "lowest KL",
        "highest": "highest KL",
        "ratio": "highest / lowest",
        "rho": "rho of KL and cases",
        "gap": "widest gap on a case",
        "gap_comparable": "of comparable ones",
        "gap_best_half": "of the best half",
    }
    return html_table(tables["convergence"], formats, names)


def spread_table(tables: Tables) -> str | None:
    """Tables 5 and 7: min, max, mean, std per case and sparsity."""
    if "spread" not in tables:
        return None
    table = judged(tables["spread"]).copy()
    table["case"], table["sparsity"] = where(table), table["target"].map(percent)
    columns = ["sparsity", "case", "gold", "full", "min", "max", "mean", "std", "n"]
    formats = dict.fromkeys(("full", "min", "max", "mean", "std"), share) | {"n": whole}
    return html_table(table[columns], formats, {"full": "full model", "gold": "right answer"})


def core_table(tables: Tables) -> str | None:
    if "core" not in tables:
        return None
    chances = dict.fromkeys(("expected", "p", "expected_layers", "p_layers"), significant)
    formats: Formats = {"masks": whole, "heads": whole, "mlps": whole, **chances}
    names = {
        "definition": "core: heads in", "expected": "by chance", "expected_layers": "by chance, same layers",
        "p_layers": "p, same layers", "mlps": "MLPs", "members": "which heads",
    }  # fmt: skip
    return html_table(tables["core"], formats, names)


def effective_size_table(tables: Tables) -> str | None:
    """Both orders beside each other, one- and two-sided, with every flag."""
    if "effective_size" not in tables:
        return None
    table = tables["effective_size"]
    table = table[table["set"].isin(["in domain", "challenge", "mixed"])]
    table = table.sort_values(["chosen", "order", "two_sided", "set", "checkpoint"], ascending=[False, True, True, False, True])
    table["rule"] = table["order"].map({"accuracies": "accuracies first", "seeds": "seeds first"})
    table["rule"] += table["two_sided"].map({True: ", two-sided", False: ""}) + table["chosen"].map(
        {True: " (chart)", False: ""}
    )
    table["flags"] = [
        ", ".join(
            word
            for flag, word in (
                (row["floor"] > 0, "floor"),
                (row["ceiling"] > 0, "ceiling"),
                (row["trivial"], "trivial"),
                (row["holes"] > 0, "holes"),
                (row["non_monotone"] > 0, "non-monotone"),
            )
            if flag
        )
        for _, row in table.iterrows()
    ]
    columns = ["set", "checkpoint", "rule", "full", "effective_size", "std", "seeds", "flags"]
    formats: Formats = {"checkpoint": whole, "full": share, "effective_size": share, "std": share, "seeds": whole}
    return html_table(table[columns], formats, {"full": "full model", "effective_size": "effective size", "checkpoint": "step"})


def ablation_columns(ablation: pd.DataFrame) -> list[tuple[str, str, str]]:
    """(dataset, case, heading): in domain, then the cases in focus; without focus, those that change most."""
    inside = [(str(d), "all", "in domain") for d in ablation.loc[ablation["domain"] == "in-domain", "dataset"].unique()]
    cases = ablation[(ablation["domain"] == "challenge") & (ablation["case"] != "focus")]
    cased = set(cases.loc[cases["case"] != "all", "dataset"])
    cases = cases[(cases["case"] != "all") | ~cases["dataset"].isin(cased)]
    if cases["focus"].any():
        cases = cases[cases["focus"]]
    largest = cases.groupby(["dataset", "case"], sort=False)["change"].agg(lambda c: c.abs().max())
    keys = list(largest.sort_values(ascending=False, kind="stable").index[:COLUMNS])
    ordered = [key for key in largest.index if key in keys]
    several = cases["dataset"].nunique() > 1
    return inside + [(str(d), str(c), str(d) if c == "all" else f"{d}: {c}" if several else str(c)) for d, c in ordered]


def ablation_table(tables: Tables) -> str | None:
    """Tables 3, 4, 6, 8: the full model, the average outside the core, every core head, the sets."""
    if "ablation" not in tables:
        return None
    ablation = tables["ablation"]
    columns = ablation_columns(ablation)
    shown = ablation[ablation["core"] | ~ablation["kind"].isin(["head", "mlp"])]
    if ablation["core"].sum() == 0:
        shown = ablation
    sets = shown[shown["kind"] == "set"]["units"].unique()
    shown = shown[(shown["kind"] != "set") | shown["units"].isin(sets[:20])]
    rows: dict[str, dict[str, Any]] = {"none: the full model": {}}
    value: dict[tuple[str, str, str], Any] = {(r.units, r.dataset, r.case): r for r in shown.itertuples()}  # type: ignore[misc]
    order = [OUTSIDE] if (shown["units"] == OUTSIDE).any() else []
    order += [u for u in dict.fromkeys(shown["units"]) if u != OUTSIDE]
    for dataset, case, heading in columns:
        for units in order:
            found = value.get((units, dataset, case))
            if found is not None:
                rows["none: the full model"][heading] = share(float(found.full))
                sure = found.low > 0 or found.high < 0
                text = f"{100 * found.value:.1f} ({points(found.change)}{'*' if sure else ''})"
                rows.setdefault(units, {})[heading] = text
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("removed").reset_index()
    return html_table(table.fillna("\u2013"), {})


def head_table(tables: Tables) -> str | None:
    """What each core head mostly does; without a core, every head."""
    if "attention" not in tables:
        return None
    scores = tables["attention"]
    table = mostly(scores[scores["core"]] if scores["core"].any() else scores)
    table = table[["unit", "does", "kind", "mean", "low", "high", "uniform"]]
    formats = dict.fromkeys(("mean", "low", "high", "uniform"), share)
    names = {
        "unit": "head", "does": "mostly attends to", "kind": "most beyond chance", "mean": "share of its attention",
        "uniform": "by chance",
    }  # fmt: skip
    return html_table(table, formats, names)


def core_against_rest_table(tables: Tables) -> str | None:
    if "attention_core" not in tables:
        return None
    counts = {"core_heads": whole, "rest_heads": whole}
    shares = dict.fromkeys(("core", "rest", "uniform"), share)
    formats: Formats = {**shares, **counts, "delta": "{:+.2f}".format, "p": significant}
    names = {"kind": "attends to", "uniform": "by chance", "core_heads": "core heads", "rest_heads": "others",
             "delta": "Cliff's delta"}  # fmt: skip
    return html_table(tables["attention_core"], formats, names)


def size_effect_table(tables: Tables) -> str | None:
    """Where subnetworks of one sparsity differ in size: how far accuracy goes with it."""
    if "size_effect" not in tables:
        return None
    table = tables["size_effect"].dropna(subset="rho").copy()
    if table.empty:
        return None
    table = table.sort_values("p", kind="stable").head(20)
    table["sparsity"] = table["target"].map(percent)
    table["currency"] = table["currency"].map({"units_share": "units", "encoder_share": "encoder parameters"})
    columns = ["sparsity", "dataset", "case", "currency", "smallest", "largest", "rho", "p", "explained"]
    formats: Formats = {
        "smallest": share,
        "largest": share,
        "explained": share,
        "rho": "{:+.2f}".format,
        "p": significant,
    }
    return html_table(table[columns], formats, {"explained": "variance explained"})
