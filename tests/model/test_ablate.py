"""Ablations that go on from the changed layer, against running the whole model each time."""

from __future__ import annotations

import numpy as np
import pytest
import tiny
import torch

from corewood.data.encode import Encoded, encode
from corewood.data.overlap import overlap
from corewood.errors import InputError
from corewood.evaluate.predict import ablate, unit_set
from corewood.model import resume as module
from corewood.model.gates import Means, gated
from corewood.model.load import Model
from corewood.model.mask import Mask
from corewood.model.reference import reference
from corewood.model.resume import first_change
from corewood.spec import Ablation

TEXTS = overlap(seed=4, train=40, validation=21, per_case=2).validation


@torch.inference_mode()
def one_by_one(model: Model, masks: list[Mask], examples: Encoded, kind: Ablation, means: Means) -> np.ndarray:
    """The whole model for every mask and every example, without batches."""
    logits = np.zeros((len(masks), len(examples), len(model.labels)), np.float32)
    for m, mask in enumerate(masks):
        with gated(model, mask, kind, means):
            for i in range(len(examples)):
                logits[m, i] = model.net(**examples.batch(np.array([i]))).logits[0].numpy()
    return logits


@pytest.mark.parametrize("kind", ["mean", "zero"])
@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_every_unit_and_sets_over_layers(family: str, kind: Ablation) -> None:
    model = tiny.model(family)
    examples = encode(TEXTS, model.tokenizer, 64)
    means = reference(model, examples).means
    units = model.units
    sets = [[n] for n in units.names] + [["L0.H1", "L1.H2"], ["L0.MLP", "L1.MLP"], ["L1.H0", "L1.MLP"], ["L0.H0", "L0.H1"], []]
    masks = [units.without(*closed) for closed in sets]
    want = one_by_one(model, masks, examples, kind, means)
    found = ablate(model, masks, examples, kind, means)
    np.testing.assert_allclose(found, want, atol=3e-5 * max(1, np.abs(want).max()))
    changed = np.abs(found[:-1] - found[-1]).max((1, 2))
    assert (changed > 1e-4).all()  # every set changes something


def test_a_convolution_after_the_first_layer() -> None:
    """DeBERTa-v2's larger models add one to the output of layer 0, from the embeddings."""
    model = tiny.model("deberta-v2", conv_kernel_size=3)
    examples = encode(TEXTS, model.tokenizer, 64)
    means = reference(model, examples).means
    masks = [model.units.without(name) for name in model.units.names]
    want = one_by_one(model, masks, examples, "mean", means)
    np.testing.assert_allclose(ablate(model, masks, examples, "mean", means), want, atol=3e-5 * max(1, np.abs(want).max()))


def test_lower_layers_run_once_and_hooks_come_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS", 64)
    model = tiny.model("bert")
    examples = encode(TEXTS, model.tokenizer, 64)
    calls = [0, 0]
    rows = [0, 0]
    for i, layer in enumerate(model.layers):
        query = layer.attention.self.query

        def count(_module: object, args: tuple[torch.Tensor, ...], i: int = i) -> None:
            calls[i] += 1
            rows[i] += len(args[0])

        query.register_forward_pre_hook(count)
    top = [model.units.without(f"L1.H{h}") for h in range(4)]
    plain = model.net(**examples.batch(np.arange(3))).logits.detach()
    calls[:], rows[:] = [0, 0], [0, 0]
    ablate(model, top, examples, "zero")
    assert calls == [1, 2]  # the full model, then all four heads from the second layer on
    assert rows == [21, 42]  # and the attention of that layer for one batch, not for four
    assert torch.equal(model.net(**examples.batch(np.arange(3))).logits.detach(), plain)
    assert all("forward" not in vars(layer) for layer in model.layers)


def test_resample_runs_the_whole_model() -> None:
    model = tiny.model("bert")
    examples = encode(TEXTS, model.tokenizer, 64)
    masks = [model.units.without("L0.H0"), model.units.full()]
    found = ablate(model, masks, examples, "resample")
    assert found.shape == (2, 21, 2)
    assert not np.allclose(found[0], found[1], atol=1e-4)


def test_sets_are_read_and_units_that_are_not_there_refused() -> None:
    names = tiny.model("bert").units.names
    assert unit_set("L1.H2 + L0.MLP+L0.H1", names) == ("L0.H1", "L1.H2", "L0.MLP")
    with pytest.raises(InputError, match=r"no unit 'L2.H5'.*2 layers of 4 heads: L0.H0 to L1.H3, and L0.MLP to L1.MLP"):
        unit_set("L0.H0 + L2.H5", names)


def test_where_a_mask_begins_to_differ() -> None:
    units = tiny.model("bert").units
    assert [first_change(units.without(*c), units.full()) for c in (["L0.H3"], ["L1.MLP"], ["L1.H0", "L0.MLP"], [])] == [
        0,
        1,
        0,
        2,
    ]
