"""Evaluating a subnetwork: slim parameters against gates, at the same sparsity of heads.

    .venv/bin/python bench/evaluate.py [--data FOLDER] [--rounds N]

Both ways evaluate the same masks (heads removed at random, all MLPs kept) of the same MiniLM on the same texts, one
thread; that their logits are equal is checked in the same run.
"""

from __future__ import annotations

import numpy as np
import torch
from common import arguments, in_turn, minilm, texts

from corewood.data.encode import Encoded, by_length
from corewood.evaluate.predict import logits_of
from corewood.model.gates import Means, gated
from corewood.model.load import Model
from corewood.model.mask import Mask
from corewood.model.reference import reference


@torch.inference_mode()
def with_gates(model: Model, mask: Mask, examples: Encoded, means: Means) -> np.ndarray:
    logits = np.zeros((len(examples), len(model.labels)), np.float32)
    with gated(model, mask, "mean", means):
        for indices in by_length(examples.lengths):
            logits[indices] = model.net(**examples.batch(indices)).logits.numpy()
    return logits


def main() -> None:
    given = arguments(__doc__ or "", rounds=15)
    model = minilm()
    shape = (model.units.layers, model.units.heads)
    print(f"{'texts':10} {'heads removed':>13} {'gates':>8} {'slim':>8} {'ratio':>8}   (milliseconds per example)")
    for name, examples in texts(model, given.data, 256):
        means = reference(model, examples).means
        for share in (0.5, 0.7):
            order = np.random.default_rng(0).permutation(shape[0] * shape[1])
            mask = Mask((order >= share * len(order)).reshape(shape), np.ones(shape[0], bool))
            np.testing.assert_allclose(
                logits_of(model, mask, examples, "mean", means), with_gates(model, mask, examples, means), atol=1e-5
            )
            gates, slim = in_turn(
                [
                    lambda e=examples, m=means, k=mask: with_gates(model, k, e, m),
                    lambda e=examples, m=means, k=mask: logits_of(model, k, e, "mean", m),
                ],
                given.rounds,
            )
            scale = 1000 / len(examples)
            print(f"{name:10} {share:13.0%} {scale * gates:8.2f} {scale * slim:8.2f} {gates / slim:7.2f}x", flush=True)


if __name__ == "__main__":
    main()
