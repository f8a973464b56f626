"""Slim modules give what gates give, and leave the model as it was."""

from __future__ import annotations

import numpy as np
import pytest
import tiny
import torch

from corewood.data.encode import encode
from corewood.data.overlap import overlap
from corewood.errors import InputError
from corewood.evaluate.predict import logits_of
from corewood.model.gates import gated
from corewood.model.load import Model
from corewood.model.mask import Mask
from corewood.model.reference import reference
from corewood.model.slim import Change, can_slim, changes, confined, slim, slimmed
from corewood.spec import Ablation

TEXTS = overlap(seed=3, train=40, validation=24, per_case=2).validation
RELATIVE = dict(relative_attention=True, position_buckets=8, norm_rel_ebd="layer_norm")
# variants of families whose attention has other parts
VARIANTS: dict[str, tuple[str, dict[str, object]]] = {
    **{name: (name, {}) for name in tiny.FAMILIES},
    "deberta-v3": ("deberta-v2", {**RELATIVE, "share_att_key": True, "pos_att_type": ["p2c", "c2p"]}),
    "deberta-own": ("deberta-v2", {**RELATIVE, "share_att_key": False, "pos_att_type": ["p2c", "c2p"]}),
    "llama-biases": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "llama-one-key": ("llama", {"num_key_value_heads": 1}),
    "llama-plain": ("llama", {"num_key_value_heads": 4}),
}


def masks(layers: int, heads: int) -> list[Mask]:
    rng = np.random.default_rng(0)
    drawn = [Mask(rng.random((layers, heads)) < 0.5, rng.random(layers) < 0.5) for _ in range(4)]
    nothing = np.ones((layers, heads), bool)
    nothing[0] = False  # a layer that loses all its heads
    uneven = np.ones((layers, heads), bool)
    uneven[0, 0] = uneven[1, 1:] = False  # groups of one and two heads; a group without any
    return [*drawn, Mask(nothing, np.zeros(layers, bool)), Mask(uneven, np.ones(layers, bool))]


@pytest.mark.parametrize("variant", VARIANTS)
def test_slim_equals_gated(variant: str) -> None:
    family, settings = VARIANTS[variant]
    model = tiny.model(family, **settings)
    examples = encode(TEXTS, model.tokenizer, 64)
    means = reference(model, examples).means
    batch = examples.batch(np.arange(len(examples)))
    before = {name: p.clone() for name, p in model.net.state_dict().items()}
    modules = dict(model.net.named_modules())
    with torch.inference_mode():
        plain = model.net(**batch).logits
        close = 5e-6 * max(1.0, float(plain.abs().max()))
        for ablate in ("mean", "zero"):
            for mask in masks(model.units.layers, model.units.heads):
                with gated(model, mask, ablate, means):
                    want = model.net(**batch).logits
                with slimmed(model, mask, ablate, means) as call:
                    found = call(**batch).logits
                assert torch.allclose(found, want, atol=close, rtol=0)
                assert not torch.allclose(found, plain, atol=1e-3)
        assert torch.equal(model.net(**batch).logits, plain)
    assert dict(model.net.named_modules()) == modules
    assert all(torch.equal(value, before[name]) for name, value in model.net.state_dict().items())


def test_slim_parameters_are_as_small_as_the_size_says() -> None:
    model = tiny.model("bert")
    mask = Mask(np.array([[1, 0, 0, 1], [0, 1, 0, 0]]), np.array([1, 1]))
    parts = [c for c in changes(model, mask, "zero", None) if isinstance(c.value, torch.Tensor)]
    saved = sum(getattr(c.module, c.name).numel() - c.value.numel() for c in parts)
    assert saved == model.units.all_parameters - mask.sizes(model.units)["all_parameters"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_family_is_as_small_as_the_size_says(variant: str) -> None:
    family, settings = VARIANTS[variant]
    model = tiny.model(family, **settings)
    mask = Mask(np.array([[1, 1, 0, 0], [1, 1, 0, 0]]), np.array([1, 1]))
    assert slim(model, mask, "zero").num_parameters() == mask.sizes(model.units)["all_parameters"]


def test_a_layer_without_open_units_computes_nothing() -> None:
    model = tiny.model("llama")
    mask = Mask(np.array([[0, 0, 0, 0], [1, 1, 1, 1]]), np.array([0, 1]))
    small = slim(model, mask, "zero")
    gone = [n for n, p in small.named_parameters() if n.startswith("model.layers.0.") and "norm" not in n]
    assert gone == ["model.layers.0.self_attn.bias", "model.layers.0.mlp.bias"]


@pytest.mark.parametrize("family", ["bert", "gpt2", "mpnet", "llama", "modernbert"])
def test_a_ticket_that_was_trained_alone_has_its_whole_shape_again(family: str) -> None:
    """With zeros where it was closed, which is what gates give."""
    model = tiny.model(family)
    batch = encode(TEXTS, model.tokenizer, 64).batch(np.arange(12))
    shapes = {name: value.shape for name, value in model.net.state_dict().items()}
    for mask in masks(2, 4)[2:]:
        with confined(model, mask):
            net = model.net.train()
            optimiser = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.05)
            net(**batch, labels=torch.arange(12) % 2).loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            net.eval()
            with torch.inference_mode():
                small = net(**batch).logits
        assert {name: value.shape for name, value in model.net.state_dict().items()} == shapes
        with torch.inference_mode():
            torch.testing.assert_close(model.net(**batch).logits, small, atol=5e-5, rtol=0)
            with gated(model, mask, "zero"):
                torch.testing.assert_close(model.net(**batch).logits, small, atol=5e-5, rtol=0)
        assert all(p.requires_grad for p in model.net.parameters())


def test_evaluation_is_slim_where_it_can_be_and_gated_where_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [can_slim(a) for a in ("mean", "zero", "resample")] == [True, True, False]
    model = tiny.model("llama")
    examples = encode(TEXTS, model.tokenizer, 64)
    means = reference(model, examples).means
    mask = masks(2, 4)[0]
    made: list[Change] = []
    own = Change.make
    monkeypatch.setattr(Change, "make", lambda self, learn=False: (made.append(self), own(self, learn))[1])

    def one_by_one(ablate: Ablation) -> np.ndarray:
        with torch.inference_mode(), gated(model, mask, ablate, means):
            return np.concatenate([model.net(**examples.batch(np.array([i]))).logits.numpy() for i in range(len(examples))])

    np.testing.assert_allclose(logits_of(model, mask, examples, "mean", means), one_by_one("mean"), atol=2e-5)
    assert made
    made.clear()
    logits_of(model, mask, examples, "resample", means)
    assert not made


def test_a_mask_of_another_shape_is_refused() -> None:
    model: Model = tiny.model("bert")
    examples = encode(TEXTS, model.tokenizer, 64)
    for other in (Mask(np.ones((3, 4)), np.ones(3)), Mask(np.zeros((2, 6)), np.ones(2))):
        with pytest.raises(InputError, match="the model has 2 x 4"):
            logits_of(model, other, examples, "zero")
    with pytest.raises(InputError, match="needs mean activations"):
        logits_of(model, masks(2, 4)[0], examples, "mean")
