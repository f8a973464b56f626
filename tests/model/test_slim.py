"""Slim parameters give what gates give, and leave the model as it was."""

from __future__ import annotations

import numpy as np
import pytest
import tiny
import torch

from corewood.data.encode import encode
from corewood.data.overlap import overlap
from corewood.errors import InputError
from corewood.evaluate.predict import logits_of
from corewood.model.families import FAMILIES
from corewood.model.gates import gated
from corewood.model.mask import Mask
from corewood.model.reference import reference
from corewood.model.slim import can_slim, slim_parameters, slimmed
from corewood.spec import Ablation

SLIM = [name for name in tiny.FAMILIES if FAMILIES[name].slim != "no"]
TEXTS = overlap(seed=3, train=40, validation=24, per_case=2).validation


def masks(layers: int, heads: int) -> list[Mask]:
    rng = np.random.default_rng(0)
    drawn = [Mask(rng.random((layers, heads)) < 0.5, rng.random(layers) < 0.5) for _ in range(4)]
    nothing = np.ones((layers, heads), bool)
    nothing[0] = False  # a layer that loses all its heads
    return [*drawn, Mask(nothing, np.zeros(layers, bool))]


def test_the_families_that_the_paper_uses_are_slim() -> None:
    assert {"bert", "roberta", "gpt2", "distilbert", "electra"} <= set(SLIM)


@pytest.mark.parametrize("ablate", ["mean", "zero"])
@pytest.mark.parametrize("family", SLIM)
def test_slim_equals_gated(family: str, ablate: Ablation) -> None:
    model = tiny.model(family)
    examples = encode(TEXTS, model.tokenizer, 64)
    means = reference(model, examples).means
    batch = examples.batch(np.arange(len(examples)))
    before = {name: p.clone() for name, p in model.net.state_dict().items()}
    with torch.inference_mode():
        plain = model.net(**batch).logits
        for mask in masks(model.units.layers, model.units.heads):
            with gated(model, mask, ablate, means):
                want = model.net(**batch).logits
            with slimmed(model, mask, ablate, means) as call:
                found = call(**batch).logits
            assert torch.allclose(found, want, atol=2e-6)
            assert not torch.allclose(found, plain, atol=1e-3)
        assert torch.equal(model.net(**batch).logits, plain)
    assert all(torch.equal(value, before[name]) for name, value in model.net.state_dict().items())


def test_slim_parameters_are_as_small_as_the_size_says() -> None:
    model = tiny.model("bert")
    mask = Mask(np.array([[1, 0, 0, 1], [0, 1, 0, 0]]), np.array([0, 1]))
    new = slim_parameters(model, mask, "zero", None)
    own = dict(model.net.named_parameters())
    saved = sum(own[name].numel() - value.numel() for name, value in new.items())
    whole = mask.sizes(model.units)
    assert saved == model.units.all_parameters - whole["all_parameters"]


def test_evaluation_is_slim_where_it_can_be_and_gated_where_not() -> None:
    assert can_slim(tiny.model("bert"), "mean")
    assert not can_slim(tiny.model("bert"), "resample")
    assert not can_slim(tiny.model("llama"), "mean")
    model = tiny.model("llama")
    examples = encode(TEXTS, model.tokenizer, 64)
    means = reference(model, examples).means
    mask = masks(2, 4)[0]
    with torch.inference_mode(), gated(model, mask, "mean", means):
        want = np.concatenate([model.net(**examples.batch(np.array([i]))).logits.numpy() for i in range(len(examples))])
    np.testing.assert_allclose(logits_of(model, mask, examples, "mean", means), want, atol=2e-5)


def test_a_mask_of_another_shape_is_refused() -> None:
    model = tiny.model("bert")
    examples = encode(TEXTS, model.tokenizer, 64)
    for other in (Mask(np.ones((3, 4)), np.ones(3)), Mask(np.zeros((2, 6)), np.ones(2))):
        with pytest.raises(InputError, match="the model has 2 x 4"):
            logits_of(model, other, examples, "zero")
    with pytest.raises(InputError, match="needs mean activations"):
        logits_of(model, masks(2, 4)[0], examples, "mean")
