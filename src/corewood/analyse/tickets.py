"""Tickets over seeds: means, spreads, and which differences they leave (LT, section 4 and table 3)."""

from __future__ import annotations

import numpy as np
import pandas as pd

KEYS = ["task", "way", "prune", "target", "ticket", "state", "epochs"]


def summary(scores: pd.DataFrame, sizes: pd.DataFrame | None = None) -> pd.DataFrame:
    """Per task and kind of ticket: mean and standard deviation over seeds; several draws of a seed are averaged first.

    `undefined` counts seeds with a score that is no number: they are in no mean. `beside` is the full model's mean; `as_full`
    says whether the ticket reaches it less one standard deviation (the paper's figure 2).
    """
    rows = scores[(scores["domain"] == "in-domain") & (scores["question"] != "effective_size")]
    last = rows["checkpoint"] == rows.groupby(["task", "tuning"])["checkpoint"].transform("max")
    rows = rows[last | (rows["way"] != "full")]
    seeds = ["tuning", "seed"]  # of fine-tuning, and of the search
    by_seed = rows.groupby([*KEYS, "metric", *seeds], sort=False)["value"].agg(lambda v: v.mean(skipna=False)).reset_index()
    grouped = by_seed.groupby([*KEYS, "metric"], sort=False)["value"]
    table = grouped.agg(mean="mean", std="std", lowest="min", highest="max", seeds="count").reset_index()
    table["undefined"] = grouped.agg(lambda v: int(v.isna().sum())).to_numpy()
    full = table[table["way"] == "full"].set_index("task")
    table["beside"] = table["task"].map(full["mean"])
    floor = table["task"].map(full["mean"] - full["std"].fillna(0))
    table["as_full"] = table["mean"] >= floor
    if sizes is not None and not sizes.empty:
        what = ["task", "way", "prune", "target", "ticket"]
        own = sizes[(sizes["way"] != "full") & (sizes["question"] != "effective_size")]
        kept = own.groupby([*what, *seeds])[["encoder_share", "in_good"]].mean().groupby(what).agg(["mean", "std"])
        kept.columns = pd.Index(["encoder_share", "encoder_share_std", "in_good", "in_good_std"])
        table = table.merge(kept.reset_index(), on=what, how="left")
    return table


def survivors(kept: dict[str, np.ndarray]) -> pd.DataFrame:
    """kind -> (seed, layer[, head]) of survival or shares -> one row per unit: kind, layer, index, mean, std, seeds."""
    tables = []
    for kind, values in kept.items():
        flat = values.reshape(len(values), -1).astype(float)  # (seed, unit)
        units = flat.shape[1]
        layer, index = np.divmod(np.arange(units), units // values.shape[1])
        std = flat.std(0, ddof=1) if len(flat) > 1 else np.full(units, np.nan)
        found = {"kind": kind, "layer": layer, "index": index, "mean": flat.mean(0), "std": std, "seeds": len(flat)}
        tables.append(pd.DataFrame(found))
    return pd.concat(tables, ignore_index=True)
