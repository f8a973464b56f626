"""Tables of what heads attend to."""

from __future__ import annotations

import numpy as np
import pandas as pd

from corewood.analyse.behaviour import core_against_rest, mostly, named
from corewood.study.results import Results, stack
from corewood.study.work import read_maps

FAINT = 0.02  # attention below this is left out of the maps


def attention_entry(results: Results) -> bool:
    job = results.plan.attention
    return job is not None and job.title not in results.holes


def attention_scores(results: Results) -> pd.DataFrame:
    assert results.plan.attention is not None
    return pd.read_parquet(results.store.get("attention", results.plan.attention.key).path("scores.parquet"))


def attention_table(results: Results) -> pd.DataFrame | None:
    if not attention_entry(results):
        return None
    scores = attention_scores(results)
    does = mostly(scores).set_index("unit")["does"]
    unit = named(scores)
    return scores.assign(unit=unit, core=unit.isin(results.core), does=unit.map(does))


def attention_core_table(results: Results) -> pd.DataFrame | None:
    if not attention_entry(results) or not results.core:
        return None
    return core_against_rest(attention_scores(results), results.core)


def maps_table(results: Results) -> pd.DataFrame | None:
    """Maps of the core heads on the examples shown: one row per head and pair of words, without the faint ones."""
    if not attention_entry(results) or not results.core:
        return None
    assert results.plan.attention is not None
    tables = []
    for number, (case, shown) in enumerate(read_maps(results.store.get("attention", results.plan.attention.key))):
        for unit in results.core:
            layer, head = (int(part[1:]) for part in unit.split("."))
            values = shown.values[layer, head]
            query, key = np.nonzero(values >= FAINT)
            tables.append(
                pd.DataFrame(
                    {
                        "example": number,
                        "case": case,
                        "unit": unit,
                        "query": query,
                        "key": key,
                        "query_word": np.array(shown.words, dtype=object)[query],
                        "key_word": np.array(shown.words, dtype=object)[key],
                        "query_sentence": shown.sentence[query],
                        "key_sentence": shown.sentence[key],
                        "value": values[query, key],
                    }
                )
            )
    return stack(tables)
