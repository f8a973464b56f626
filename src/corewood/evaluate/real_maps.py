"""Maps of a real model, to be labelled by hand: how well are pattern types told on what heads really do?

    python -m corewood.evaluate.real_maps OUT

writes OUT/raw and OUT/normed, one .npy per map, drawn by a seed from all heads of the embedded model on the texts below
and on pairs of the generated task. The labels beside the shipped maps were given by eye; see maps/README.md.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from corewood.data.encode import words_of
from corewood.data.overlap import overlap
from corewood.evaluate.normed import normed_attention_of
from corewood.model.load import Model, load

SEED = 11
PAIRS = 12  # of the generated task
DRAWN = {"raw": 72, "normed": 52}
TEXTS: list[tuple[str, ...]] = [
    ("The kettle whistled before anyone woke.",),
    ("Rain again; the allotment will be pleased.",),
    ("My uncle repairs clocks, radios and, once, a church organ.",),
    ("Why did nobody tell the lighthouse keeper?",),
    ("She folded the map, put it away, and walked north anyway.",),
    ("Two of the seven jars were empty, which surprised the judges at the village fair.",),
    ("If the ferry is late, take the path along the cliff; it is steep, but the view repays every step.",),
    ("The committee met on Tuesday, argued until nine, and agreed, in the end, to meet again on Thursday.",),
    ("Bread, salt, a candle and three coins: that was all the old woman had left on the table.",),
    ("Nothing in the report explains why the second pump failed an hour after the first had been replaced.",),
    ("He said, \"Keep the change,\" but there was no change to keep.",),
    ("Owls hunt at night.",),
    ("The bus (number 14, the slow one) stops outside the library, the baker's and the swimming pool.",),
    ("Although the orchestra had rehearsed for months, the flute came in early, the drums came in late, and the singer, "
     "who had lost her voice that morning, did not come in at all.",),
    ("When the snow melted we found a glove, two tennis balls, a bicycle bell and the letter that my sister had been "
     "looking for since the end of November.",),
    ("Our neighbours keep bees on the roof. In June the whole street smells of lime blossom, and everyone on it, even "
     "the man from number nine who is afraid of insects, gets a jar of honey in September.",),
    ("A heron stood in the shallows. It did not move. It did not blink. Then the fish was gone.",),
    ("Prices rose by 4.5 per cent in May, 3.9 per cent in June and hardly at all in July.",),
    ("The goalkeeper shouted, pointed, shouted again, and finally sat down.", "Nobody listened to the goalkeeper."),
    ("A tailor measured the sleeves twice.", "The sleeves were measured by a tailor."),
    ("Every lamp on the pier was lit.", "The pier was completely dark."),
    ("The museum opens at ten, except on Mondays.", "On Mondays the museum does not open at ten."),
    ("Three children built a raft out of barrels and rope, but it sank near the bank.",
     "The raft, which the children had made themselves, went under."),
    ("It is easier to plant a tree than to move one.", "Moving a tree is harder than planting it."),
    ("The train to the coast was cancelled because of leaves on the line.", "Did anyone reach the coast by train?"),
    ("Grandmother's recipe asks for butter, sugar, four eggs, lemon peel and patience; we had run out of the last.",
     "There was no patience left for the recipe."),
    ("Snow fell.", "It was cold."),
    ("The mechanic who fixed the tractor also fixes watches, and says that the only difference is the size of the hammer.",
     "A watch and a tractor need different hammers, according to the mechanic."),
    ("Please close the gate.", "The goats get out when the gate is left open, and last week they ate the neighbour's "
     "roses, half a hedge and a pair of socks."),
    ("The doctor's answer was short: rest, tea, and no more ladders.", "The doctor advised against ladders."),
]  # fmt: skip
# Heads with a type that is rare: see maps/README.md
RARE = {
    "raw": [(0, 2), (0, 4), (0, 5), (0, 0), (0, 7), (0, 10), (2, 10), (3, 0)],
    "normed": [(3, 2), (3, 9), (2, 10), (0, 7), (0, 11), (3, 0)],
}
RARE_EACH = 3
BLOCKS = {"raw": [(0, 7)], "normed": [(0, 11), (0, 7)]}  # a second time, as there were still few blocks
BLOCKS_EACH = 6


Pairs = list[tuple[int, int]]  # (layer, head)


@dataclass(frozen=True)
class Drawn:
    flavour: str  # raw or normed
    layer: int
    head: int
    text: int

    def name(self, number: int) -> str:
        return f"{number:03d}.L{self.layer}.H{self.head}.text{self.text:02d}.npy"


def texts() -> list[tuple[str, ...]]:
    split = overlap(seed=SEED, counter=0.02).validation
    assert split is not None
    rows = split.frame.iloc[:PAIRS][["first", "second"]].itertuples(index=False)
    return TEXTS + [tuple(row) for row in rows]


def add(found: dict[Drawn, None], flavour: str, where: Pairs, each: int, count: int, rng: np.random.Generator) -> None:
    for layer, head in where:
        for text in rng.choice(count, each, replace=False):
            found[Drawn(flavour, layer, head, int(text))] = None


def draw(layers: int, heads: int, count: int) -> list[Drawn]:
    """Which maps: layer, head and text at random, then more from heads that have a rare type."""
    rng = np.random.default_rng(SEED)
    found: dict[Drawn, None] = {}
    for flavour, wanted in DRAWN.items():
        while sum(d.flavour == flavour for d in found) < wanted:
            found[Drawn(flavour, *(int(rng.integers(n)) for n in (layers, heads, count)))] = None
        add(found, flavour, RARE[flavour], RARE_EACH, count, rng)
    for flavour in DRAWN:
        add(found, flavour, BLOCKS[flavour], BLOCKS_EACH, count, rng)
    return list(found)


def maps_of(model: Model, chosen: Sequence[Drawn], pairs: Sequence[tuple[str, ...]]) -> list[np.ndarray]:
    """One square map per draw, of the text's own tokens."""
    both = {}
    for text in sorted({d.text for d in chosen}):
        raw, normed = normed_attention_of(model, [words_of(model.tokenizer, pairs[text], model.max_length)])
        both[text] = {"raw": raw[0].numpy(), "normed": normed[0].numpy()}
    return [both[d.text][d.flavour][d.layer, d.head] for d in chosen]


def main(out: Path) -> None:
    model = load("minilm", ("entailment", "non-entailment"), new_head=True)
    pairs = texts()
    chosen = draw(model.units.layers, model.units.heads, len(pairs))
    number = {"raw": 0, "normed": 0}
    for d, values in zip(chosen, maps_of(model, chosen, pairs), strict=True):
        (out / d.flavour).mkdir(parents=True, exist_ok=True)
        np.save(out / d.flavour / d.name(number[d.flavour]), values.astype(np.float16))
        number[d.flavour] += 1


if __name__ == "__main__":
    main(Path(sys.argv[1]))
