"""Removing every head and MLP in turn, and pairs of heads: going on from the first layer that changes, against running the
whole model each time.

    .venv/bin/python bench/ablate.py [--data FOLDER] [--rounds N]

The pairs are those of twelve heads, two in each layer: about what a core has. Both ways remove the same units of the
same MiniLM on the same texts, in batches of similar length, one thread; that their logits are equal is checked in the
same run.
"""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import torch
from common import arguments, in_turn, minilm, texts

from corewood.data.encode import Encoded, by_length
from corewood.evaluate.predict import ablate, without
from corewood.model.gates import Means, gated
from corewood.model.load import Model
from corewood.model.mask import Mask
from corewood.model.reference import reference


@torch.inference_mode()
def whole_model(model: Model, masks: list[Mask], examples: Encoded, means: Means) -> np.ndarray:
    logits = np.zeros((len(masks), len(examples), len(model.labels)), np.float32)
    for place, mask in enumerate(masks):
        with gated(model, mask, "mean", means):
            for indices in by_length(examples.lengths):
                logits[place, indices] = model.net(**examples.batch(indices)).logits.numpy()
    return logits


def main() -> None:
    given = arguments(__doc__ or "", rounds=1)
    model = minilm()
    core = [f"L{layer}.H{head}" for layer in range(6) for head in (2, 7)]
    removed = {"units": [[name] for name in model.units.names], "pairs": [*map(list, combinations(core, 2))]}
    print(f"{'texts':10} {'removed':>8} {'tokens':>6} {'whole':>9} {'resumed':>9} {'ratio':>8}   (ms per set and example)")
    for (name, examples), (who, sets) in product(texts(model, given.data, 96), removed.items()):
        masks = [without(model.units, closed) for closed in sets]
        means = reference(model, examples).means
        one, other = whole_model(model, masks, examples, means), ablate(model, masks, examples, "mean", means)
        np.testing.assert_allclose(one, other, atol=1e-5)
        whole, ours = in_turn(
            [
                lambda e=examples, m=means, masks=masks: whole_model(model, masks, e, m),
                lambda e=examples, m=means, masks=masks: ablate(model, masks, e, "mean", m),
            ],
            given.rounds,
        )
        scale, length = 1000 / len(masks) / len(examples), examples.lengths.mean()
        times = f"{scale * whole:9.3f} {scale * ours:9.3f} {whole / ours:7.2f}x"
        print(f"{name:10} {who:>8} {length:6.1f} {times}", flush=True)


if __name__ == "__main__":
    main()
