"""One step of the search, ours against the way the released code does it; seconds per example, one thread each.

    .venv/bin/python bench/search.py [--data FOLDER] [--rounds N]

The reference pads every text to 128 tokens, runs the full model in every step beside the pruned one, has dropout on,
works in four micro-batches of 32, in float32. Both run on the same fine-tuned-shape MiniLM and the same texts; the
weights are frozen in both. Texts: the generated task, and HANS and MNLI where FOLDER has hans/validation.jsonl and
mnli/dev_matched.jsonl.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import islice

import numpy as np
import torch
import torch.nn.functional as F
from common import LENGTH, arguments, minilm, texts

from corewood.data.encode import Encoded, shuffled
from corewood.model.gates import Gates, gated
from corewood.model.load import Model
from corewood.model.reference import Reference, reference
from corewood.prune.exchange import Texts
from corewood.prune.l0 import State, frozen, sample_gates, step
from corewood.spec import L0

MICRO, MICROS, PAD = 32, 4, LENGTH


def reference_step(model: Model, sample: Encoded, indices: np.ndarray, shared: Reference, log_alpha: torch.Tensor) -> None:
    """128 examples the way of the released code."""
    units = model.units
    for part in np.split(indices, MICROS):
        batch = sample.batch(part, length=PAD)
        z = sample_gates(log_alpha, torch.rand(len(units)).clamp(1e-6, 1 - 1e-6))
        model.net.eval()
        with torch.no_grad():
            full = model.net(**batch).logits
        model.net.train()
        with gated(model, Gates.from_vector(z, units.layers, units.heads), "mean", shared.means):
            pruned = model.net(**batch).logits
        loss = F.kl_div(F.log_softmax(pruned, -1), F.log_softmax(full, -1), log_target=True, reduction="batchmean") / MICROS
        loss.backward()
    log_alpha.grad = None


def seconds(work: Callable[[np.ndarray], None], batches: list[np.ndarray]) -> float:
    """Per example, after one batch to warm up; the best third of the batches, so that a busy moment does not count."""
    work(batches[0])
    times = []
    for batch in batches[1:]:
        start = time.perf_counter()
        work(batch)
        times.append((time.perf_counter() - start) / len(batch))
    return float(np.mean(sorted(times)[: max(1, len(times) // 3)]))


def compare(name: str, model: Model, sample: Encoded, steps: int) -> None:
    shared = reference(model, sample)
    settings = L0(sparsity=0.5, steps=10 * steps)
    state = State.start(len(model.units), settings, 0)
    all_texts = Texts.of(model, sample, shared)
    rng = np.random.default_rng(0)
    random = [rng.choice(len(sample), MICRO * MICROS, replace=False) for _ in range(steps + 1)]
    log_alpha = torch.full((len(model.units),), 2.5, requires_grad=True)

    def ours(indices: np.ndarray) -> None:
        nonlocal state
        state = step(all_texts, indices, settings, 0, state)

    with frozen(model, dropout=False):
        theirs = seconds(lambda indices: reference_step(model, sample, indices, shared, log_alpha), random)
        model.net.eval()
        mine = seconds(ours, list(islice(shuffled(sample.lengths, settings.batch, 0), 3 * steps + 1)))
    print(f"{name:10} {sample.lengths.mean():6.1f} {1000 * theirs:10.2f} {1000 * mine:8.2f} {theirs / mine:8.1f}x", flush=True)


def main() -> None:
    given = arguments(__doc__ or "", rounds=9)
    model = minilm()
    print(f"{'texts':10} {'tokens':>6} {'reference':>10} {'ours':>8} {'ratio':>9}   (milliseconds per example)")
    for name, sample in texts(model, given.data, 1024):
        compare(name, model, sample, given.rounds)


if __name__ == "__main__":
    main()
