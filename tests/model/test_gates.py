"""Gates on every family: open ones change nothing, each closed one changes something, and closing equals removing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tiny
import torch

from corewood.data.encode import encode
from corewood.data.overlap import overlap
from corewood.errors import InputError
from corewood.model.gates import Gates, Means, gated
from corewood.model.load import Model, self_check, wrap
from corewood.model.mask import Mask
from corewood.model.reference import mean_activations, reference

SPLIT = overlap(train=64, validation=24, per_case=2).validation
CASES = [(family, side) for family in tiny.FAMILIES for side in ("left", "right")]


def inputs(model: Model, count: int = 6) -> dict[str, torch.Tensor]:
    """As a user would make them: padded by the tokenizer, on the side it prefers."""
    texts = [SPLIT.frame[c].head(count).tolist() for c in ("first", "second")]
    return dict(model.tokenizer(*texts, padding=True, return_tensors="pt"))


def random_means(model: Model) -> Means:
    g = torch.Generator().manual_seed(5)
    u = model.units
    width = model.net.config.hidden_size
    return Means(torch.randn(u.layers, u.heads, model.head_width, generator=g), torch.randn(u.layers, width, generator=g), 1)


@pytest.mark.parametrize(("family", "side"), CASES)
@torch.no_grad()
def test_open_gates_change_no_logit_and_every_closed_one_changes_some(family: str, side: str) -> None:
    model = tiny.model(family, side)
    batch = inputs(model)
    plain = model.net(**batch).logits
    assert batch["attention_mask"].min() == 0  # there is padding
    units = model.units
    open_gates = Gates(torch.ones(units.layers, units.heads), torch.ones(units.layers))
    open_gates.heads.requires_grad_()  # so that every hook is on
    with torch.enable_grad():
        open_gates.mlps.requires_grad_()
        with gated(model, open_gates, "mean", random_means(model)):
            assert model.net(**batch).logits.equal(plain)
    for ablate in ("zero", "mean", "resample"):
        for unit in range(len(units)):
            vector = np.ones(len(units), bool)
            vector[unit] = False
            with gated(model, units.from_vector(vector), ablate, random_means(model)):
                assert not model.net(**batch).logits.equal(plain), (ablate, units.names[unit])
    assert model.net(**batch).logits.equal(plain)  # all hooks are off again
    self_check(model)


@pytest.mark.parametrize("family", tiny.FAMILIES)
@torch.no_grad()
def test_padding_does_not_matter_under_gates(family: str) -> None:
    model = tiny.model(family, "right")
    encoded = encode(SPLIT, model.tokenizer, 64)
    mask = model.units.from_vector(np.arange(len(model.units)) % 3 > 0)
    with gated(model, mask, "mean", random_means(model)):
        tight = model.net(**encoded.batch(np.arange(4))).logits
        wide = model.net(**encoded.batch(np.arange(4), length=40)).logits
        alone = torch.cat([model.net(**encoded.batch(np.array([i]))).logits for i in range(4)])
    assert torch.allclose(tight, wide, atol=1e-4)
    assert torch.allclose(tight, alone, atol=1e-4)


def remove_head(model: Model, layer: int, head: int) -> None:
    """Zero the head's part of the output projection: what removing it means, without any hook."""
    out: Any = model.attention_outs[layer]
    part = slice(head * model.head_width, (head + 1) * model.head_width)
    if type(out).__name__ == "Conv1D":
        out.weight[part] = 0
    else:
        out.weight[:, part] = 0


@pytest.mark.parametrize("family", tiny.FAMILIES)
@torch.no_grad()
def test_a_closed_gate_equals_explicit_removal(family: str) -> None:
    gate, hand = tiny.model(family), tiny.model(family)
    batch = inputs(gate)
    heads = np.ones((2, 4), bool)
    heads[0, 1] = heads[1, 2] = heads[1, 3] = False
    for layer, head in zip(*np.nonzero(~heads), strict=True):
        remove_head(hand, layer, head)
    out: Any = hand.mlp_outs[0]
    out.weight.zero_()
    if getattr(out, "bias", None) is not None:
        out.bias.zero_()
    with gated(gate, Mask(heads, np.array([False, True])), "zero"):
        assert torch.allclose(gate.net(**batch).logits, hand.net(**batch).logits, atol=1e-5)


@torch.no_grad()
def test_a_mean_ablated_unit_folds_into_a_bias() -> None:
    gate, hand = tiny.model(), tiny.model()
    batch, means = inputs(gate), random_means(gate)
    heads = np.ones((2, 4), bool)
    heads[1, 2] = False
    out: Any = hand.attention_outs[1]
    part = slice(2 * gate.head_width, 3 * gate.head_width)
    out.bias += out.weight[:, part] @ means.heads[1, 2]
    remove_head(hand, 1, 2)
    mlp: Any = hand.mlp_outs[0]
    mlp.weight.zero_()
    mlp.bias.copy_(means.mlps[0])
    with gated(gate, Mask(heads, np.array([False, True])), "mean", means):
        assert torch.allclose(gate.net(**batch).logits, hand.net(**batch).logits, atol=1e-5)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("family", ["bert", "gpt2", "llama"])
@torch.no_grad()
def test_means_equal_a_loop_without_batching(family: str, side: str) -> None:
    model = tiny.model(family, side)
    encoded = encode(SPLIT, model.tokenizer, 64)
    found = reference(model, encoded)
    heads: list[list[torch.Tensor]] = [[], []]
    mlps: list[list[torch.Tensor]] = [[], []]
    hooks = []
    for layer in range(2):
        hooks.append(model.attention_outs[layer].register_forward_pre_hook(lambda _m, a, i=layer: heads[i].append(a[0][0])))
        hooks.append(model.mlp_outs[layer].register_forward_hook(lambda _m, _a, x, i=layer: mlps[i].append(x[0])))
    logits = [model.net(**encoded.batch(np.array([i]))).logits[0] for i in range(len(encoded))]  # one by one: no padding
    for hook in hooks:
        hook.remove()
    for layer in range(2):
        assert torch.allclose(found.means.heads[layer].flatten(), torch.cat(heads[layer]).mean(0), atol=1e-5)
        assert torch.allclose(found.means.mlps[layer], torch.cat(mlps[layer]).mean(0), atol=1e-5)
    assert found.means.tokens == encoded.lengths.sum() == len(torch.cat(heads[0]))
    assert np.allclose(found.logits, torch.stack(logits).numpy(), atol=1e-4)


@pytest.mark.parametrize("side", ["left", "right"])
@torch.no_grad()
def test_resample_takes_real_tokens_of_another_example(side: str) -> None:
    model = tiny.model("bert", side)
    batch = inputs(model, 5)
    real = batch["attention_mask"].bool()
    seen: dict[str, torch.Tensor] = {}
    mask = model.units.from_vector(np.arange(len(model.units)) != 0)  # closes L0.H0
    with gated(model, mask, "resample", seed=3):
        # runs before the gate's hook and after it
        before = model.attention_outs[0].register_forward_pre_hook(lambda _m, a: seen.update(before=a[0]), prepend=True)
        after = model.attention_outs[0].register_forward_pre_hook(lambda _m, a: seen.update(after=a[0]))
        model.net(**batch)
        before.remove()
        after.remove()
    width = model.head_width
    own, put = seen["before"][..., :width], seen["after"][..., :width]
    assert seen["after"][..., width:].equal(seen["before"][..., width:])
    donors = set()
    for i in range(5):
        candidates = [j for j in range(5) if j != i and (put[i][real[i]][0] == own[j][real[j]][0]).all()]
        assert len(candidates) == 1
        donor = own[candidates[0]][real[candidates[0]]]  # (token, width), real ones alone
        count = int(real[i].sum())
        repeated = donor.repeat(-(-count // len(donor)), 1)[:count]
        assert put[i][real[i]].equal(repeated)
        donors.add((candidates[0] - i) % 5)
    assert len(donors) == 1
    with gated(model, mask, "resample"), pytest.raises(InputError, match="at least two in a batch"):
        model.net(**inputs(model, 1))


def test_gates_of_their_own_for_every_example() -> None:
    model = tiny.model()
    batch = inputs(model, 3)
    rng = np.random.default_rng(0)
    vectors = rng.random((3, len(model.units))) < 0.6
    with torch.no_grad():
        with gated(model, Gates.from_vector(torch.tensor(vectors, dtype=torch.float32), 2, 4), "zero"):
            together = model.net(**batch).logits
        for i, vector in enumerate(vectors):
            with gated(model, model.units.from_vector(vector), "zero"):
                assert torch.allclose(model.net(**batch).logits[i], together[i], atol=1e-5)


def test_hooks_come_off_when_the_block_fails() -> None:
    model = tiny.model()
    batch = inputs(model)
    plain = model.net(**batch).logits
    with pytest.raises(RuntimeError), gated(model, ~model.units.full(), "zero"):
        raise RuntimeError
    assert model.net(**batch).logits.equal(plain)


def test_mean_ablation_without_means_says_what_to_do() -> None:
    model = tiny.model()
    with pytest.raises(InputError, match=r"cw\.mean_activations"), gated(model, ~model.units.full()):
        pass
    means = mean_activations(model, SPLIT, examples=8)
    assert model.means is means
    with gated(model, ~model.units.full()):
        model.net(**inputs(model))
    with pytest.raises(InputError, match="choose mean, zero or resample"), gated(model, model.units.full(), "median"):  # type: ignore[arg-type]
        pass
    with pytest.raises(InputError, match="the model has 2 x 4"), gated(model, Mask(np.ones((1, 4)), np.ones(1)), "zero"):
        pass


def test_a_wrong_row_in_the_table_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from corewood.model import families

    wrong = families.Family(
        "encoder.layer", families.BERT.attention_in, "attention.self.query", ("intermediate.dense",), "output.dense"
    )
    monkeypatch.setitem(families.FAMILIES, "bert", wrong)
    net = tiny.net()
    net.bert.encoder.layer[1].attention.self.query.weight.data.zero_()  # its input then does not matter at all
    with pytest.raises(InputError, match="architecture table is wrong"):
        self_check(wrap(net, tiny.tokenizer()))


@pytest.mark.parametrize(("by", "refused"), [(1e-6, False), (1e-2, True)])
def test_open_gates_may_differ_by_rounding_and_by_nothing_more(by: float, refused: bool) -> None:
    """Threads may share out a sum differently from call to call; a real change is refused."""
    model, calls = tiny.model(), iter(range(100))
    model.net.classifier.register_forward_hook(lambda _module, _inputs, logits: logits + by * next(calls))
    if refused:
        with pytest.raises(InputError, match="open gates change its logits"):
            self_check(model)
    else:
        self_check(model)


def test_parameters_are_counted_as_removal_would(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against shapes by hand: BERT with d = 32, four heads of 8, MLP of 48."""
    units = tiny.model().units
    assert units.head_parameters + units.group_parameters == 3 * (8 * 32 + 8) + 32 * 8
    assert units.mlp_parameters == 32 * 48 + 48 + 48 * 32
    grouped = tiny.model("llama").units  # two groups for four heads, no biases
    assert grouped.head_parameters == 8 * 32 + 32 * 8
    assert grouped.group_parameters == 2 * 8 * 32
    assert grouped.mlp_parameters == 3 * 32 * 48
    assert tiny.model("gpt2").units.head_parameters == 8 * 32 + 8 + 32 * 8
