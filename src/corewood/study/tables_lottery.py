"""The tables of a lottery."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from operator import and_
from typing import Any

import numpy as np
import pandas as pd
from safetensors.numpy import load_file

from corewood.analyse.methods import beside
from corewood.analyse.overlaps import overlaps
from corewood.analyse.patterns import heterogeneity, pattern_summary
from corewood.analyse.stability import pairs, stability
from corewood.analyse.tickets import summary, survivors
from corewood.model.mask import Mask, Masks
from corewood.study.lottery import IMPORTANCE, L0, MAGNITUDE, Ticket
from corewood.study.results import stack
from corewood.study.results_lottery import PRUNED_KINDS, LotteryResults

ALL_TASKS = "all tasks"


def rounds_table(results: LotteryResults) -> pd.DataFrame | None:
    """Every round of pruning: what was left, what it scored, whether it passed."""
    tables = []
    for f in results.found:
        table = pd.read_parquet(results.entry(f).path("rounds.parquet"))
        tables.append(table.assign(task=f.task, seed=f.seed, method=f.method, prune=f.prune))
    return stack(tables)


def importance_table(results: LotteryResults) -> pd.DataFrame | None:
    """What every unit scored in every round that it took part in."""
    tables = []
    for f in results.found:
        if f.method == IMPORTANCE:
            table = pd.read_parquet(results.entry(f).path("scores.parquet"))
            tables.append(table.assign(task=f.task, seed=f.seed, prune=f.prune))
    return stack(tables)


def survivors_table(results: LotteryResults) -> pd.DataFrame | None:
    """Per task and method, and over tasks: how often each unit survives, or the share of its weights that do."""
    kept = {(task, IMPORTANCE, prune): list(by.values()) for (task, prune), by in results.masks.items()}
    tables = [
        survivors({"head": Masks(masks).heads, "mlp": Masks(masks).mlps}).assign(task=task, method=method, prune=prune)
        for (task, method, prune), masks in kept.items()
    ]
    weights = weight_shares(results)
    tables += [
        survivors(by_kind(by.values())).assign(task=task, method=MAGNITUDE, prune="weights") for task, by in weights.items()
    ]
    found = stack(tables)
    if found is None:
        return None
    every = [found, *over_tasks(results, weights)]
    return pd.concat(every, ignore_index=True)[["task", "method", "prune", "kind", "layer", "index", "mean", "std", "seeds"]]


def weight_shares(results: LotteryResults) -> dict[str, dict[int, dict[str, np.ndarray]]]:
    """Task -> seed -> heads (layer, head) and mlps (layer,): share of its weights that stay."""
    found: dict[str, dict[int, dict[str, np.ndarray]]] = {}
    for f in results.found:
        if f.method == MAGNITUDE:
            found.setdefault(f.task, {})[f.seed] = load_file(results.entry(f).path("shares.safetensors"))
    return found


def by_kind(shares: Iterable[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Kind -> (seed, layer[, head])"""
    every = list(shares)
    return {kind: np.stack([s[name] for s in every]) for kind, name in (("head", "heads"), ("mlp", "mlps"))}


def over_tasks(results: LotteryResults, weights: dict[str, dict[int, dict[str, np.ndarray]]]) -> list[pd.DataFrame]:
    """Figure 15: in how many tasks each unit survives, over the seeds that all tasks have; weights as their mean share."""
    made = []
    for prune in dict.fromkeys(prune for _, prune in results.masks):
        by_task = {task: by for (task, which), by in results.masks.items() if which == prune}
        seeds = results.common_seeds(by_task)
        if len(by_task) > 1 and seeds:
            heads, mlps = (
                np.stack([sum(getattr(by[s], part).astype(int) for by in by_task.values()) for s in seeds])
                for part in ("heads", "mlps")
            )
            made.append(survivors({"head": heads, "mlp": mlps}).assign(task=ALL_TASKS, method=IMPORTANCE, prune=prune))
    seeds = results.common_seeds(weights)
    if len(weights) > 1 and seeds:
        of_task = [by_kind(by[s] for s in seeds) for by in weights.values()]
        shares = {kind: np.mean([v[kind] for v in of_task], axis=0) for kind in ("head", "mlp")}
        made.append(survivors(shares).assign(task=ALL_TASKS, method=MAGNITUDE, prune="weights"))
    return made


def kinds_of(masks: list[Mask]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """kind -> ((mask, unit) kept, (unit,) layer)"""
    pack = Masks(masks)
    layers, heads = pack.heads.shape[1:]
    return {
        "head": (pack.heads.reshape(len(pack), -1), np.repeat(np.arange(layers), heads)),
        "mlp": (pack.mlps, np.arange(layers)),
    }


def stability_table(results: LotteryResults) -> pd.DataFrame | None:
    rows: list[dict[str, Any]] = []
    for (task, prune), by in results.masks.items():
        kinds = kinds_of(list(by.values()))
        for kind, (kept, strata) in ((k, kinds[k]) for k in PRUNED_KINDS[prune] if len(by) > 1):
            rows.append({"task": task, "prune": prune, "kind": kind, **stability(kept, strata).row()})
    return pd.DataFrame(rows) if rows else None


def pairs_table(results: LotteryResults) -> pd.DataFrame | None:
    tables = []
    for (task, prune), by in results.masks.items():
        kinds = kinds_of(list(by.values()))
        for kind, (kept, _) in ((k, kinds[k]) for k in PRUNED_KINDS[prune] if len(by) > 1):
            tables.append(pairs(kept, list(by)).assign(task=task, prune=prune, kind=kind))
    return stack(tables)


def overlaps_table(results: LotteryResults) -> pd.DataFrame | None:
    """Over the seeds that all tasks have, of the kinds of units that were pruned."""
    good = results.good_masks()
    seeds = results.common_seeds(good)
    if len(good) < 2 or not seeds:
        return None
    table = overlaps({task: [by[s] for s in seeds] for task, by in good.items()})
    return table[table["kind"].isin(results.pruned_kinds())].reset_index(drop=True)


def complete(rows: list[Ticket]) -> list[Ticket]:
    """L0 searches beside which every method has its subnetwork."""
    by: dict[tuple[int, int], set[str]] = {}
    for row in rows:
        by.setdefault((row.seed, row.search_seed), set()).add(row.method)
    every = set().union(*by.values())
    return [row for row in rows if by[row.seed, row.search_seed] == every]


def methods_table(results: LotteryResults) -> pd.DataFrame | None:
    """Every method on every case, with its interval and its difference from L0."""
    rows: list[dict[str, Any]] = []
    mine = [row for row in results.rows if row.part == "methods"]
    for task, target in dict.fromkeys((row.task, row.target) for row in mine):
        here = complete([row for row in mine if (row.task, row.target) == (task, target)])
        full = {r.seed for r in results.rows if r.method == "full" and r.task == task}
        seeds = [s for s in results.plan.spec.seeds if s in full and any(r.seed == s for r in here)]
        if not seeds or not any(row.method == L0 for row in here):
            continue
        for dataset in results.plan.datasets(task):
            right: dict[str, np.ndarray] = {}
            for method in dict.fromkeys(row.method for row in here):
                by_seed = [[results.right(r, dataset) for r in here if (r.method, r.seed) == (method, s)] for s in seeds]
                right[method] = np.stack([np.mean(answers, axis=0) for answers in by_seed])  # (model, example)
            whole = [r for r in results.rows if r.method == "full" and r.task == task and r.seed in seeds]
            right["full"] = np.stack([results.right(r, dataset) for r in whole]).astype(float)
            for case, group, inside in results.cases(task, dataset):
                facts = {"task": task, "target": target, "dataset": dataset, "case": case, "group": group}
                facts["domain"] = "in-domain" if dataset == "report" else "challenge"
                found = beside({name: values[:, inside] for name, values in right.items()}, L0)
                rows += [{**facts, "method": name, **values} for name, values in found.items()]
    return pd.DataFrame(rows) if rows else None


def pattern_tables(results: LotteryResults) -> dict[str, pd.DataFrame]:
    tables = []
    for part in results.plan.patterns:
        if part.job.title not in results.holes:
            table = pd.read_parquet(results.store.get("patterns", part.job.key).path("shares.parquet"))
            state = "pretrained" if part.seed is None else "fine-tuned"
            tables.append(table.assign(task=part.task, state=state, seed=-1 if part.seed is None else part.seed))
    found = stack(tables)
    if found is None:
        return {}
    if any(job.title in results.holes for job in results.plan.classifiers.values()):
        return {}
    alive = {task: reduce(and_, by.values()) for task, by in results.good_masks().items() if "head" in results.pruned_kinds()}
    quality = [
        pd.read_parquet(results.store.get("pattern_classifier", job.key).path("quality.parquet")).assign(attention=flavour)
        for flavour, job in results.plan.classifiers.items()
    ]
    made = {"patterns": found, "pattern_shares": pattern_summary(found, alive), "pattern_quality": pd.concat(quality)}
    return made | ({"heterogeneity": heterogeneity(found, alive)} if alive else {})


def collect_lottery(results: LotteryResults) -> dict[str, pd.DataFrame]:
    tables: dict[str, pd.DataFrame] = {"scores": results.scores}
    if not results.sizes.empty:
        tables["tickets"] = results.sizes
    tables["summary"] = summary(results.scores, tables.get("tickets"))
    makers: dict[str, Callable[[LotteryResults], pd.DataFrame | None]] = {
        "rounds": rounds_table,
        "importance": importance_table,
        "survivors": survivors_table,
        "stability": stability_table,
        "stability_pairs": pairs_table,
        "overlaps": overlaps_table,
        "methods": methods_table,
    }
    for name, make in makers.items():
        table = make(results)
        if table is not None:
            tables[name] = table
    return tables | pattern_tables(results)
