"""The report of a lottery, on tables that are made up: real shapes, plausible numbers, any size."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_
from typing import Any

import numpy as np
import pandas as pd
import pytest
import small
import vl_convert

from corewood.analyse.behaviour import heterogeneity, pattern_summary
from corewood.analyse.differences import beside
from corewood.analyse.overlaps import overlaps
from corewood.analyse.stability import pairs
from corewood.analyse.stability import unit_stability as stability
from corewood.analyse.tickets import summary, survivors
from corewood.model.mask import Mask, Masks
from corewood.report import overlaps as overlaps_report
from corewood.report import patterns, searches, tickets, ways_compared
from corewood.report import survivors as survivors_report
from corewood.report.items import SECTIONS as PER_MODEL
from corewood.report.items import Item, items_of
from corewood.report.page import VEGA_LITE, draw, finding, page
from corewood.report.tickets import bad_table, in_good_table, longer_table, scores_table, table_rows, tickets_chart

QUESTIONS = (tickets, ways_compared, survivors_report, overlaps_report, patterns, searches)
SECTIONS: dict[str, list[Item]] = {}
for _item in [item for part in QUESTIONS for item in items_of(part)]:
    if not PER_MODEL[_item.section]:
        SECTIONS.setdefault(_item.section, []).append(_item)
TYPES = ("vertical", "diagonal", "vertical+diagonal", "block", "heterogeneous")
METRIC = {"cola": "matthews", "sts-b": "pearson"}
LEVELS = {"good": (0.9, 0.96), "random": (0.75, 0.92), "bad": (0.65, 0.88)}  # of the full model: pruned, retrained
FOUND = (("importance", "both", 1.0), ("magnitude", "weights", 1.05), ("super-survivors", "both", 0.8))
NOTE = "whoever always says the same has no correlation with anything"
CASES = (("validation", "all", "in-domain"), *(("hard", case, "challenge") for case in ("all", "if", "passive")))
FACTS = {
    "draw": 0,
    "target": 0.0,
    "seed": 0,
    "epochs": 0.0,
    "prune": "both",
    "question": "prune",
    "checkpoint": 9,
    "nested": False,
}

OVER = {"way": "importance", "prune": "both", "target": 0.0, "over": "fine-tunings", "tuning": -1}


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
        made = {"scores": self.scores(), "sizes": self.sizes(), "holes": pd.DataFrame({"job": [], "reason": []})}
        made["tickets"] = summary(made["scores"], made["sizes"])
        made |= {"rounds": self.rounds(), "importance": self.importance(), "survivors": self.survivors()}
        if len(self.seeds) > 1:
            made |= {"stability": self.agreement(), "stability_pairs": self.pairs()}
        if len(self.tasks) > 1:
            made["overlaps"] = overlaps(self.masks, self.draws).assign(way="importance", prune="both", target=0.0)
        return made | {"ways": self.methods(), **self.patterns()}

    def scores(self) -> pd.DataFrame:
        rows: list[dict[str, Any]] = []
        for number, task in enumerate(self.tasks):
            metric, full = METRIC.get(task, "accuracy"), 0.9 - 0.04 * number
            facts = {**FACTS, "task": task, "metric": metric, "dataset": "validation", "domain": "in-domain", "case": "all"}

            def add(method: str, ticket: str, state: str, seed: int, value: float, facts: Any = facts, **more: Any) -> None:
                row = {**facts, "way": method, "ticket": ticket, "state": state, "tuning": seed, "value": value, "note": ""}
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
        rows: list[dict[str, Any]] = []

        def add(task: str, seed: int, method: str, ticket: str, found: Mapping[str, float], prune: str = "both") -> None:
            rows.append({**FACTS, "task": task, "tuning": seed, "way": method, "ticket": ticket, "prune": prune, **found})

        for task, masks in self.masks.items():
            alive = reduce(and_, masks)
            for seed, mask in zip(self.seeds, masks, strict=True):
                for method, own in (("importance", mask), ("super-survivors", alive)):
                    for ticket, inside in (("good", 1.0), ("random", 0.5), ("bad", 0.2)):
                        add(task, seed, method, ticket, self.size(own, inside))
                alone = {"heads": Mask(mask.heads, mask.mlps | True), "mlps": Mask(mask.heads | True, mask.mlps)}
                for prune, left in alone.items():
                    add(task, seed, "importance", "good", self.size(left, 1.0), prune)
                share = 0.5 + 0.01 * self.rng.random()
                for ticket, inside in (("good", 1.0), ("random", 0.5), ("bad", 0.0)):
                    kept = {"weights": 5000.0, "encoder_share": share, "in_good": inside}
                    add(task, seed, "magnitude", ticket, kept, "weights")
        return pd.DataFrame(rows)

    def size(self, mask: Mask, inside: float) -> dict[str, float]:
        heads, mlps = float(mask.heads.sum()), float(mask.mlps.sum())
        share = heads / mask.heads.size / 3 + mlps / mask.mlps.size * 2 / 3
        kept = {"heads": heads, "mlps": mlps, "units_share": len(mask) / mask.vector.size, "encoder_share": share}
        return {**kept, "heads_in_good": inside, "mlps_in_good": inside, "in_good": inside}

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
                        facts = {"task": task, "tuning": seed, "way": method, "prune": prune, "round": i, "floor": 0.9 * full}
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
                    found = {"round": i, "unit": kept, "score": score, "ranked": score * 10}
                    tables.append(pd.DataFrame(found).assign(task=task, tuning=seed))
        return pd.concat(tables, ignore_index=True).assign(prune="both")

    def survivors(self) -> pd.DataFrame:
        tables = []
        shares = {"head": (self.layers, self.heads), "mlp": (self.layers,)}
        for task, masks in self.masks.items():
            kept = {"head": Masks(masks).heads, "mlp": Masks(masks).mlps}
            tables += [
                survivors(kept).assign(task=task, way="importance", prune=p, target=0.0) for p in ("both", "heads", "mlps")
            ]
            weights = {k: 0.5 + 0.1 * self.rng.standard_normal((len(masks), *shape)).clip(-2, 2) for k, shape in shares.items()}
            tables.append(survivors(weights).assign(task=task, way="magnitude", prune="weights", target=0.0))
        if len(self.tasks) > 1:
            packs = [Masks(masks) for masks in self.masks.values()]
            counts = {"head": np.sum([p.heads for p in packs], axis=0), "mlp": np.sum([p.mlps for p in packs], axis=0)}
            tables.append(survivors(counts).assign(task="all tasks", way="importance", prune="both", target=0.0))
            tables.append(survivors(weights).assign(task="all tasks", way="magnitude", prune="weights", target=0.0))
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
            {"task": task, **OVER, "kind": kind, **stability(kept, strata, self.draws).row()}
            for task, kind, kept, strata in self.kinds()
        )

    def pairs(self) -> pd.DataFrame:
        tables = [pairs(kept, list(self.seeds)).assign(task=task, kind=kind) for task, kind, kept, _ in self.kinds()]
        return pd.concat(tables, ignore_index=True).assign(**OVER)

    def methods(self, worse: float = 0.1) -> pd.DataFrame:
        """Importance is worse than L0 on the challenge cases of the first task."""
        rows = []
        for number, task in enumerate(self.tasks):
            for dataset, case, domain in CASES if number == 0 else CASES[:1]:
                n = {"all": 400}.get(case, 200)
                chances = {"l0": 0.8, "importance": 0.8, "magnitude": 0.8, "random": 0.5, "full": 0.9}
                chances["importance"] -= worse * (domain == "challenge")
                luck = self.rng.random((len(self.seeds), n))
                right = {name: (luck < chance).astype(float) for name, chance in chances.items()}
                right["magnitude"] = np.roll(right["magnitude"], 1, 1)
                facts = {
                    "task": task,
                    "target": 0.4,
                    "dataset": dataset,
                    "case": case,
                    "group": "",
                    "domain": domain,
                    "base": "l0",
                }
                rows += [{**facts, "way": name, **found} for name, found in beside(right, "l0").items()]
        return pd.DataFrame(rows)

    def patterns(self) -> dict[str, pd.DataFrame]:
        layer, head = (a.ravel() for a in np.indices((self.layers, self.heads)))
        tables = []
        for task in self.tasks:
            for state, seed in (("pretrained", -1), *(("fine-tuned", s) for s in self.seeds)):
                for attention in ("raw", "normed"):
                    shares = self.rng.dirichlet((0.3, 0.4, 0.3, 0.2, 0.6), layer.size)
                    facts = {"task": task, "state": state, "tuning": seed, "attention": attention, "examples": 50}
                    for i, kind in enumerate(TYPES):
                        own = {"layer": layer, "head": head, "type": kind, "share": shares[:, i]}
                        tables.append(pd.DataFrame({**own, **facts}))
        found = pd.concat(tables, ignore_index=True)
        alive = {task: reduce(and_, masks) for task, masks in self.masks.items()}
        quality = pd.DataFrame({"type": [*TYPES, "weighted"], "f1": [0.9, 0.95, 0.8, np.nan, 0.7, 0.84]})
        quality = quality.assign(precision=quality["f1"], recall=quality["f1"], support=[40, 30, 20, 0, 60, 150])
        sets = [quality.assign(set=name, attention=a) for name in ("generated", "real") for a in ("raw", "normed")]
        return {
            "patterns": found,
            "pattern_shares": pattern_summary(found, alive),
            "pattern_quality": pd.concat(sets, ignore_index=True),
            "heterogeneity": heterogeneity(found, alive),
        }


NEEDS = {
    "Pruning": ["rounds", "importance"],
    "Survivors": ["survivors"],
    "Stability": ["stability", "stability_pairs"],
    "Between tasks": ["overlaps"],
    "Patterns": ["patterns", "pattern_shares", "pattern_quality", "heterogeneity"],
    "Ways": ["ways"],
}
Tables = Mapping[str, pd.DataFrame]


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    return Made(["cola", "if", "sts-b"], [1, 2, 3], 2, 4).tables()


def words(tables: Tables) -> str:
    found = finding(tables, "bert")
    return " ".join([found.headline, *found.points])


def items(tables: Tables) -> dict[str, Any]:
    """Name -> chart or HTML, of all items that have something to show."""
    made = {item.name: item(tables) for part in SECTIONS.values() for item in part}
    return {name: content for name, content in made.items() if content is not None}


def rescored(tables: Tables, change: Mapping[str, float], **where: str) -> dict[str, pd.DataFrame]:
    """The same tables with other scores: task -> value in the rows that `where` names."""
    scores = tables["scores"].copy()
    for task, value in change.items():
        rows = scores["task"] == task
        for column, wanted in where.items():
            rows &= scores[column] == wanted
        scores.loc[rows, "value"] = value
    return {**tables, "scores": scores, "tickets": summary(scores, tables["sizes"])}


def test_every_item_is_drawn_and_becomes_a_picture() -> None:
    tables = Made(["if", "sts-b"], [1, 2], 2, 2).tables()
    drawn = draw(tables)
    assert {s: [d.item for d in found] for s, found in drawn.items()} == SECTIONS
    specs = json.loads(page(tables, small.ABOUT, drawn).split('id="specs">')[1].split("</script>")[0])
    assert list(specs) == [d.item.name for found in drawn.values() for d in found if not d.item.table]
    for spec in specs.values():
        assert vl_convert.vegalite_to_svg(json.dumps(spec), vl_version=VEGA_LITE).startswith("<svg")


@pytest.mark.parametrize("section", list(NEEDS))
def test_a_section_without_its_tables_is_left_out(tables: dict[str, pd.DataFrame], section: str) -> None:
    some = {name: table for name, table in tables.items() if name not in NEEDS[section]}
    assert all(item(some) is None for item in SECTIONS[section])
    assert words(some)


def test_summary_alone_is_enough(tables: dict[str, pd.DataFrame]) -> None:
    least = {"scores": tables["scores"], "tickets": summary(tables["scores"]), "holes": tables["holes"]}
    assert list(items(least)) == ["tickets", "super-survivors", "scores-table", "bad-table", "longer-table", "notes"]
    assert "none was retrained" not in words(least)


def test_one_task_and_one_seed() -> None:
    few = Made(["cola"], [7], 2, 2).tables()
    found = items(few)
    assert not {"stability", "pairs", "overlaps", "over-tasks"} & set(found)
    for content in found.values():
        if not isinstance(content, str):
            json.dumps(content.to_dict(validate=False), allow_nan=False, default=str)
    text = words(few)
    assert "rests on one fine-tuning of one task" in text
    assert "one seed has no spread" in text
    assert "nan" not in text


@pytest.mark.parametrize("method", ["importance", "magnitude"])
def test_one_way_of_pruning_alone(tables: dict[str, pd.DataFrame], method: str) -> None:
    names = ("scores", "tickets", "sizes", "rounds", "survivors")
    some = {"holes": tables["holes"]} | {
        name: tables[name][tables[name]["way"].isin(["majority", "full", method])] for name in names
    }
    assert {"tickets", "rounds", "stays", "survivors"} <= set(items(some))
    assert ("s-pruning's" in words(some)) == (method == "importance")


# numbers


def cells(html: str) -> dict[str, list[str]]:
    """First cell of a row -> the others."""
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", html)]
    return {row[0]: row[1:] for row in rows if row}


def test_table_3_holds_means_over_seeds(tables: dict[str, pd.DataFrame]) -> None:
    html = scores_table(tables)
    assert html is not None
    scores = tables["scores"]
    good = scores[(scores["way"] == "magnitude") & (scores["ticket"] == "good") & (scores["state"] == "retrained")]
    found = cells(html)["m-pruning: good, retrained"]
    for task, text in zip(["cola", "if", "sts-b"], found, strict=True):
        values = good.loc[good["task"] == task, "value"].to_numpy()
        assert text.rstrip("*") == f"{values.mean():.2f}\u00a0±\u00a0{values.std(ddof=1):.2f}"
    assert list(table_rows(tables["tickets"]))[:4] == [
        "majority class", "full model", "s-pruning: good, pruned", "s-pruning: good, retrained",
    ]  # fmt: skip
    assert cells(html)["majority class"][2] == "undefined†"


def test_averages_are_given_only_where_no_task_is_missing(tables: dict[str, pd.DataFrame]) -> None:
    bad = cells(bad_table(tables) or "")
    assert bad["majority class"][-1] == "a task is missing"
    row = table_rows(tables["tickets"])["s-pruning: bad, retrained"]
    assert bad["bad by s-pruning, retrained"][-1] == f"{row['mean'].mean():.3f}"
    assert list(cells(longer_table(tables) or "")) == ["as long as fine-tuning", "4 epochs", "6 epochs"]


def test_undefined_scores_are_counted(tables: dict[str, pd.DataFrame]) -> None:
    scores = tables["scores"].copy()
    odd = (scores["way"] == "importance") & (scores["state"] == "pruned") & (scores["task"] == "if") & (scores["tuning"] == 1)
    odd &= (scores["ticket"] == "good") & (scores["prune"] == "both")
    scores.loc[odd, ["value", "note"]] = [np.nan, "not finite"]
    changed = {**tables, "scores": scores, "tickets": summary(scores, tables["sizes"])}
    html = scores_table(changed)
    assert html is not None
    assert cells(html)["s-pruning: good, pruned"][1].endswith("† (2 of 3 seeds)")
    assert "one score undefined" in words(changed)
    json.dumps(tickets_chart(changed).to_dict(), allow_nan=False)


def test_chance_of_being_in_the_good_one(tables: dict[str, pd.DataFrame]) -> None:
    html = in_good_table(tables)
    assert html is not None
    rows = tables["sizes"]
    mine = rows[(rows["task"] == "cola") & (rows["way"] == "importance") & (rows["ticket"] == "random")]
    row = re.findall(r"<tr>(.*?)</tr>", html)[1]
    shown = re.findall(r"<td[^>]*>(.*?)</td>", row)
    assert shown[:3] == ["cola", "s-pruning", "random"]
    assert shown[4] == f"{100 * mine['heads'].mean() / 8:.1f} %"


# words


def test_winning_depends_on_one_standard_deviation(tables: dict[str, pd.DataFrame]) -> None:
    full = tables["tickets"][tables["tickets"]["way"] == "full"].set_index("task")
    bar = full["mean"] - full["std"]
    where = {"way": "importance", "ticket": "good", "state": "retrained"}
    above = rescored(tables, {t: bar[t] + 0.001 for t in bar.index}, **where)
    below = rescored(tables, {t: bar[t] - 0.001 for t in bar.index}, **where)
    assert "on 3 of 3 tasks by s-pruning" in finding(above, "bert").headline
    assert "on 0 of 3 tasks by s-pruning" in finding(below, "bert").headline
    assert "s-pruning's reach it on no task" in words(below)
    one = rescored(above, {"if": bar["if"] - 0.001}, **where)
    assert "s-pruning's reach it on all but “if”" in words(one)


def test_a_share_of_the_score_is_not_one_of_what_was_learnt(tables: dict[str, pd.DataFrame]) -> None:
    """Nine tenths of 0.8 are 0.72, and six tenths of the way from 0.6."""
    tasks = {"cola": 0.0, "if": 0.6, "sts-b": 0.0}
    changed = rescored(tables, dict.fromkeys(tasks, 0.8), way="full")
    changed = rescored(changed, tasks, way="majority")
    for way, mean in (("importance", 0.72), ("magnitude", 0.8)):
        changed = rescored(changed, dict.fromkeys(tasks, mean), way=way, ticket="good", state="pruned")
    assert "as pruned keep 60 to 90 % by s-pruning and 100 % by m-pruning." in words(changed)


def test_methods_are_told_apart_only_by_intervals_without_zero(tables: dict[str, pd.DataFrame]) -> None:
    assert "worse: importance" in words(tables)
    assert "not to be told apart from it: magnitude" in words(tables)
    same = tables["ways"].assign(difference_low=-0.1, difference_high=0.1)
    assert "the methods cannot be told apart" in words({**tables, "ways": same})


def test_what_was_odd_is_said(tables: dict[str, pd.DataFrame]) -> None:
    sizes = tables["sizes"].copy()
    one = (sizes["way"] == "importance") & (sizes["ticket"] == "good") & (sizes["tuning"] == 1) & (sizes["task"] == "cola")
    sizes.loc[one & (sizes["prune"] == "both"), ["heads", "mlps"]] = 0
    assert "s-pruning removed everything in 1 of" in words({**tables, "sizes": sizes})
    poor = rescored(tables, {"cola": 0.1}, way="full")
    assert "the full model does not beat the majority class on “cola”" in words(poor)
    assert "of 3 tasks by s-pruning" in finding(tables, "bert").headline
    assert "of 2 tasks by s-pruning" in finding(poor, "bert").headline


def test_correlation_with_heterogeneity(tables: dict[str, pd.DataFrame]) -> None:
    sure = tables["heterogeneity"].assign(r=0.5, p=0.001)
    assert "survive more often" in words({**tables, "heterogeneity": sure})
    unknown = tables["heterogeneity"].assign(r=np.nan, p=np.nan)
    assert "heterogeneous" not in words({**tables, "heterogeneity": unknown})


def test_a_model_from_which_nothing_was_removed_wins_nothing(tables: dict[str, pd.DataFrame]) -> None:
    summary = tables["tickets"].copy()
    whole = (summary["way"] == "importance") & (summary["task"] == "cola")
    summary.loc[whole, "encoder_share"] = 1.0
    changed = {**tables, "tickets": summary}
    assert "of 2 tasks by s-pruning" in finding(changed, "bert").headline
    assert "s-pruning removed nothing on “cola”" in words(changed)


def test_super_survivors_of_heads_alone(tables: dict[str, pd.DataFrame]) -> None:
    assert "MLPs (by chance" in words(tables)
    stability = tables["stability"]
    heads = words({**tables, "stability": stability[stability["kind"] == "head"]})
    assert "Super-survivors, kept with every seed, are" in heads
    assert "MLPs (by chance" not in heads


def alone(tables: dict[str, pd.DataFrame], **differences: tuple[float, float]) -> dict[str, pd.DataFrame]:
    """Nothing but methods: each with its difference from L0, and half the width of its interval."""
    methods = tables["ways"]
    rows = methods[methods["way"].isin(["l0", *differences])].copy()
    rows[["difference", "difference_low", "difference_high"]] = 0.0
    rows["value"] = 0.7
    for name, (gap, half) in differences.items():
        mine = rows["way"] == name
        rows.loc[mine, ["difference", "difference_low", "difference_high"]] = [gap, gap - half, gap + half]
        rows.loc[mine, "value"] = 0.7 + gap
    summary = tables["tickets"]
    return {**tables, "tickets": summary[summary["way"].isin(["full", "majority"])], "ways": rows}


@pytest.mark.parametrize(
    ("magnitude", "importance", "says"),
    [
        (
            (0.12, 0.05),
            (0.0, 0.05),
            "by magnitude keep more of the challenge cases than those by L0: 82 % by magnitude are right, and 70 % by L0",
        ),
        ((0.0, 0.05), (0.0, 0.05), "cannot be told apart"),
        ((0.01, 0.05), (-0.4, 0.1), "by importance lose more of the challenge cases than those by L0"),
        (
            (-0.1, 0.05),
            (-0.3, 0.1),
            "magnitude lose more of the challenge cases than those by L0: 40 % by importance and 60 % by magnitude",
        ),
    ],
)
def test_the_headline_of_methods_alone(
    tables: dict[str, pd.DataFrame], magnitude: tuple[float, float], importance: tuple[float, float], says: str
) -> None:
    assert says in finding(alone(tables, magnitude=magnitude, importance=importance), "mini").headline


def test_the_headline_of_methods_on_several_sets_or_none(tables: dict[str, pd.DataFrame]) -> None:
    """Sets differ in how hard they are: a method is never compared with L0 on another set."""
    one = alone(tables, magnitude=(0.12, 0.05))
    challenge = one["ways"]["domain"] == "challenge"
    harder = one["ways"][challenge].assign(dataset="harder", value=lambda t: t["value"] - 0.6)
    several = {**one, "ways": pd.concat([one["ways"], harder])}
    assert "magnitude is worse on 0 and better on" in finding(several, "mini").headline
    first = one["ways"]["task"] == one["ways"]["task"].iloc[0]
    inside = {**one, "ways": one["ways"][~challenge & first]}
    assert "by magnitude keep more of the validation set than those by L0" in finding(inside, "mini").headline
    assert "on the validation set L0 gets" in words(inside)
