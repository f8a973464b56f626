"""Maps of a real model, to be labelled by hand: how well are pattern types told on what heads really do?

    python scripts/real_maps.py OUT

writes OUT/raw and OUT/normed, one .npy per map, drawn by a seed from all heads of the embedded model on
src/corewood/evaluate/maps/texts.csv and on pairs of the generated task. The labels beside the shipped maps were given by
eye; see README.md in that folder.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from corewood.data.encode import words_of
from corewood.data.overlap import overlap
from corewood.evaluate.attention import normed_attention_of
from corewood.evaluate.patterns import SHIPPED
from corewood.model.load import load

SEED = 11
PAIRS = 12  # of the generated task
DRAWN = {"raw": 72, "normed": 52}
# (layer, head) with a type that is rare: see the README of the maps
RARE = {
    "raw": [(0, 2), (0, 4), (0, 5), (0, 0), (0, 7), (0, 10), (2, 10), (3, 0)],
    "normed": [(3, 2), (3, 9), (2, 10), (0, 7), (0, 11), (3, 0)],
}
RARE_EACH = 3
BLOCKS = {"raw": [(0, 7)], "normed": [(0, 11), (0, 7)]}  # a second time, as there were still few blocks
BLOCKS_EACH = 6


class Drawn(NamedTuple):
    flavour: str  # raw or normed
    layer: int
    head: int
    text: int


def texts() -> list[tuple[str, ...]]:
    """Single texts and pairs."""
    written = pd.read_csv(SHIPPED / "texts.csv", keep_default_na=False).itertuples(index=False)
    made = overlap(seed=SEED, counter=0.02).validation.texts.iloc[:PAIRS].itertuples(index=False)
    return [tuple(filter(None, row)) for row in (*written, *made)]


def draw(layers: int, heads: int, count: int) -> list[Drawn]:
    """Which maps of `count` texts: layer, head and text at random, then more from heads that have a rare type."""
    rng = np.random.default_rng(SEED)
    found: dict[Drawn, None] = {}  # in the order of drawing

    def add(flavour: str, where: list[tuple[int, int]], each: int) -> None:
        for layer, head in where:
            found.update({Drawn(flavour, layer, head, int(text)): None for text in rng.choice(count, each, replace=False)})

    for flavour, wanted in DRAWN.items():
        while sum(d.flavour == flavour for d in found) < wanted:
            found[Drawn(flavour, *(int(rng.integers(n)) for n in (layers, heads, count)))] = None
        add(flavour, RARE[flavour], RARE_EACH)
    for flavour in DRAWN:
        add(flavour, BLOCKS[flavour], BLOCKS_EACH)
    return list(found)


def main(out: Path) -> None:
    model = load("minilm", ("entailment", "non-entailment"), new_head=True)
    pairs = texts()
    chosen = draw(model.units.layers, model.units.heads, len(pairs))
    both = {}  # text -> raw and normed maps, (layer, head, query, key)
    for text in {d.text for d in chosen}:
        raw, normed = normed_attention_of(model, [words_of(model.tokenizer, pairs[text], model.max_length)])
        both[text] = {"raw": raw[0].numpy(), "normed": normed[0].numpy()}
    for flavour in DRAWN:
        (out / flavour).mkdir(parents=True, exist_ok=True)
        for number, (_, layer, head, text) in enumerate(d for d in chosen if d.flavour == flavour):
            values = both[text][flavour][layer, head].astype(np.float16)
            np.save(out / flavour / f"{number:03d}.L{layer}.H{head}.text{text:02d}.npy", values)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
