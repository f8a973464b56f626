"""Importance of all units from one backward pass with frozen weights, against computing all gradients.

    .venv/bin/python bench/importance.py [--data FOLDER] [--rounds N] [--magnitude]

Both ways score every head and MLP of the same MiniLM on the same texts, in batches of similar length, one thread; that the
scores are equal is checked in the same run. `--magnitude` times one round of magnitude pruning on a model of BERT-base's size
instead: 85 million weights, drawn at random.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from common import arguments, in_turn, minilm, texts

from corewood.data.encode import Encoded, by_length
from corewood.model.gates import Gates, gated
from corewood.model.load import Model, wrap
from corewood.prune.importance import importance_scores
from corewood.prune.magnitude import pruner
from corewood.spec.ways import Importance

BATCH = 32
SETTINGS = Importance.model_validate({"per": "batch", "batch": BATCH})


def all_gradients(model: Model, examples: Encoded, gold: np.ndarray) -> np.ndarray:
    """As the released code does it: weights get gradients too, which nobody looks at (and which are put back to nothing)."""
    units = model.units
    total, batches = torch.zeros(len(units)), 0
    for indices in by_length(examples.lengths, BATCH):
        z = torch.ones(len(units), requires_grad=True)
        with gated(model, Gates.from_vector(z, units.layers, units.heads), "zero"):
            logits = model.net(**examples.batch(indices)).logits
        F.cross_entropy(logits, torch.from_numpy(gold[indices])).backward()
        assert z.grad is not None
        total += z.grad.abs()
        batches += 1
        model.net.zero_grad(set_to_none=True)
    return (total / batches).numpy()


def importance(given: argparse.Namespace) -> None:
    model = minilm()
    full = model.units.full()
    print(f"{'texts':10} {'tokens':>6} {'all':>9} {'frozen':>9} {'ratio':>8}   (milliseconds per example)")
    for name, examples in texts(model, given.data, 192):
        gold = np.arange(len(examples)) % len(model.labels)
        ours = importance_scores(model, full, examples, gold, SETTINGS)
        np.testing.assert_allclose(ours, all_gradients(model, examples, gold), rtol=1e-3, atol=1e-7)
        slow, fast = in_turn(
            [
                lambda e=examples, g=gold: all_gradients(model, e, g),
                lambda e=examples, g=gold: importance_scores(model, full, e, g, SETTINGS),
            ],
            given.rounds,
        )
        scale = 1000 / len(examples)
        print(
            f"{name:10} {examples.lengths.mean():6.1f} {scale * slow:9.3f} {scale * fast:9.3f} {slow / fast:7.2f}x", flush=True
        )


def magnitude() -> None:
    torch.set_num_threads(1)
    net = transformers.BertForSequenceClassification(transformers.BertConfig())
    model = wrap(net, minilm().tokenizer, "BERT-base's size, random")
    with pruner(model) as work:
        print(f"{work.left:,} weights")
        for round_ in range(3):
            start = time.perf_counter()
            work.remove(round(0.1 * work.left))
            print(f"round {round_ + 1}: {time.perf_counter() - start:.1f} s, {work.left:,} left", flush=True)
        mask = work.mask()
    held = sum(bits.nbytes for bits in mask.bits.values())
    print(f"the mask: {held / 1e6:.1f} MB of bits")


if __name__ == "__main__":
    if "--magnitude" in sys.argv:
        magnitude()
    else:
        importance(arguments(__doc__ or "", rounds=3))
