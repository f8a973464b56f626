"""Evaluating a subnetwork: slim parameters against gates, at the same sparsity of heads; and the last layer for the first
token alone against all tokens.

    .venv/bin/python bench/evaluate.py [--data FOLDER] [--rounds N]

All ways evaluate the same masks (heads removed at random, all MLPs kept) of the same MiniLM on the same texts, one
thread; that their logits are equal is checked in the same run.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from common import arguments, in_turn, minilm, texts

from corewood.data.encode import Encoded, by_length
from corewood.evaluate.predict import logits_of
from corewood.model.gates import gated
from corewood.model.load import Model
from corewood.model.mask import Mask
from corewood.model.reference import reference
from corewood.model.slim import slimmed


@torch.inference_mode()
def all_tokens(inside: AbstractContextManager[Any], model: Model, examples: Encoded) -> np.ndarray:
    logits = np.zeros((len(examples), len(model.labels)), np.float32)
    with inside:
        for indices in by_length(examples.lengths):
            logits[indices] = model.net(**examples.batch(indices)).logits.numpy()
    return logits


def main() -> None:
    given = arguments(__doc__ or "", rounds=15)
    model = minilm()
    shape = (model.units.layers, model.units.heads)
    print(f"{'texts':10} {'heads removed':>13} {'gates':>8} {'slim':>8} {'first token':>11}   (milliseconds per example)")
    for name, examples in texts(model, given.data, 256):
        means = reference(model, examples).means
        for share in (0.5, 0.7):
            order = np.random.default_rng(0).permutation(shape[0] * shape[1])
            mask = Mask((order >= share * len(order)).reshape(shape), np.ones(shape[0], bool))
            ways: list[Callable[[], np.ndarray]] = [
                lambda e=examples, m=means, k=mask: all_tokens(gated(model, k, "mean", m), model, e),
                lambda e=examples, m=means, k=mask: all_tokens(slimmed(model, k, "mean", m), model, e),
                lambda e=examples, m=means, k=mask: logits_of(model, k, e, "mean", m),
            ]
            for way in ways[1:]:
                np.testing.assert_allclose(way(), ways[0](), atol=1e-5)
            gates, slim, first = (1000 / len(examples) * seconds for seconds in in_turn(ways, given.rounds))
            print(
                f"{name:10} {share:13.0%} {gates:8.2f} {slim:8.2f} {first:11.2f}   "
                f"slim {gates / slim:.2f}x, first token {slim / first:.2f}x more",
                flush=True,
            )


if __name__ == "__main__":
    main()
