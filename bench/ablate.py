"""Removing every head and MLP in turn: going on from the layer that changes, against running the whole model each time.

    .venv/bin/python bench/ablate.py [--data FOLDER] [--rounds N]

Both ways remove the same units of the same MiniLM on the same texts, in batches of similar length, one thread; that
their logits are equal is checked in the same run.
"""

from __future__ import annotations

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
    masks = [without(model.units, [name]) for name in model.units.names]
    print(f"{'texts':10} {'tokens':>6} {'whole':>9} {'resumed':>9} {'ratio':>8}   (milliseconds per unit and example)")
    for name, examples in texts(model, given.data, 96):
        means = reference(model, examples).means
        one, other = whole_model(model, masks, examples, means), ablate(model, masks, examples, "mean", means)
        np.testing.assert_allclose(one, other, atol=1e-5)
        whole, ours = in_turn(
            [
                lambda e=examples, m=means: whole_model(model, masks, e, m),
                lambda e=examples, m=means: ablate(model, masks, e, "mean", m),
            ],
            given.rounds,
        )
        scale = 1000 / len(masks) / len(examples)
        print(
            f"{name:10} {examples.lengths.mean():6.1f} {scale * whole:9.3f} {scale * ours:9.3f} {whole / ours:7.2f}x",
            flush=True,
        )


if __name__ == "__main__":
    main()
