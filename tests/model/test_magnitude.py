"""Magnitude pruning: against torch's own, and through training."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from torch.nn.utils import prune

from corewood.data.encode import encode
from corewood.data.overlap import overlap
from corewood.errors import InputError
from corewood.model.finetune import fine_tune
from corewood.model.load import Model
from corewood.model.mask import Mask
from corewood.model.weights import (
    WeightMask,
    encoder_weights,
    trained_under,
    unit_shares,
    unit_weights,
    weights_masked,
)
from corewood.prune.magnitude import Pruner, magnitude_search, pruner
from corewood.spec import FineTune
from corewood.spec.ways import Magnitude


def copies(model: Model) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in model.net.named_parameters()}


def same(model: Model, before: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(p, before[name]) for name, p in model.net.named_parameters())


def test_rounds_are_torchs_global_pruning() -> None:
    """The same numbers removed at once by torch.nn.utils.prune give the same mask."""
    model, other = tiny.model(), tiny.model()
    before = copies(model)
    found = magnitude_search(model, iter([1.0, 0.99, 0.95, 0.91, 0.5]).__next__, Magnitude.model_validate({}))
    assert same(model, before)  # put back to the last bit
    assert found.rounds["passed"].tolist() == [True, True, True, True, False]
    total = found.mask.total
    left = [total]
    for _ in range(4):
        left.append(left[-1] - round(0.1 * left[-1]))
    assert found.rounds["weights"].tolist() == left
    assert len(found.mask) == left[3]
    modules = [m for m in other.layers.modules() if isinstance(m, torch.nn.Linear)]
    prune.global_unstructured([(m, "weight") for m in modules], prune.L1Unstructured, amount=total - left[3])
    owners = {id(m.weight_orig): m for m in modules}
    pruned = {name.removesuffix("_orig"): owners.get(id(p)) for name, p in other.net.named_parameters()}
    theirs = {name: module.weight_mask for name, module in pruned.items() if module is not None}
    assert theirs.keys() == found.mask.shapes.keys()
    for name, mask in theirs.items():
        np.testing.assert_array_equal(found.mask.kept(name), mask.numpy().astype(bool))


def test_the_released_code_removes_biases_too() -> None:
    """Of query, key, value, attention output and the MLP's first layer; the global ranking is torch's."""
    model, other = tiny.model(), tiny.model()
    with torch.no_grad():
        for net in (model.net, other.net):
            torch.manual_seed(5)
            for name, p in net.named_parameters():
                if name.endswith("bias"):
                    p.normal_(0, 0.5)
    before = copies(model)
    found = magnitude_search(model, lambda: 1.0, Magnitude.model_validate({"biases": True, "most_rounds": 10}))
    assert same(model, before)
    assert found.mask.share == pytest.approx(0.9**10, abs=1e-4)  # 65 % removed at the most
    parts = ("query", "key", "value", "attention.output.dense", "intermediate.dense", "output.dense")
    linear = {n: m for n, m in other.layers.named_modules() if n.endswith(parts)}
    pairs = [(m, "weight") for m in linear.values()]
    pairs += [(m, "bias") for n, m in linear.items() if n.endswith(parts[:5]) and not n[2:].startswith("output")]
    prune.global_unstructured(pairs, prune.L1Unstructured, amount=found.mask.total - len(found.mask))
    theirs = sum(int(getattr(m, f"{kind}_mask").sum()) for m, kind in pairs)
    assert (theirs, sum(getattr(m, f"{kind}_mask").numel() for m, kind in pairs)) == (len(found.mask), found.mask.total)
    for (module, kind), (name, p) in product(pairs, before.items()):
        if torch.equal(getattr(module, f"{kind}_orig"), p) and name in found.mask.shapes:
            np.testing.assert_array_equal(found.mask.kept(name), getattr(module, f"{kind}_mask").numpy().astype(bool))
    assert sum(len(shape) == 1 for shape in found.mask.shapes.values()) == 5 * 2
    with weights_masked(model, found.mask):
        bias = model.layers[0].attention.self.query.bias
        assert 0 < int((bias == 0).sum()) < len(bias)
    assert same(model, before)


def test_exact_numbers_with_equal_weights() -> None:
    model = tiny.model()
    with torch.no_grad():
        for weight in encoder_weights(model).values():
            weight.copy_(torch.sign(weight) * 0.5)  # all magnitudes equal
        first = next(iter(encoder_weights(model).values()))
        first[0, :5] = 0.0  # zeros that nobody removed
    with pruner(model) as work:
        work.remove(1000)
        mask = work.mask()
    assert len(mask) == mask.total - 1000
    assert not mask.kept(next(iter(mask.shapes)))[0, :5].any()


def test_a_round_needs_no_copy_of_the_model() -> None:
    """Beside the model there are a byte a weight, and the values that were removed."""
    model = tiny.model()
    with pruner(model) as work:
        work.remove(500)
        work.remove(300)
        assert sum(values.numel() for done in work.rounds for values in done.values()) == 800
        assert {gone.dtype for gone in work.gone.values()} == {torch.uint8}
        work.undo()
        assert work.left == work.mask().total - 500


def test_a_round_that_stops_half_way_leaves_the_model_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny.model()
    before = {name: p.detach().clone() for name, p in model.net.named_parameters()}

    def interrupted(work: Pruner) -> None:
        real, calls = torch.Tensor.masked_fill_, iter(range(9))

        def fails(tensor: torch.Tensor, *args: Any) -> torch.Tensor:
            if next(calls) == 5:  # the third matrix, marked and not yet removed
                raise KeyboardInterrupt
            return real(tensor, *args)

        with monkeypatch.context() as patch:
            patch.setattr(torch.Tensor, "masked_fill_", fails)
            work.remove(300)

    with pruner(model) as work:
        work.remove(500)
        with pytest.raises(KeyboardInterrupt):
            interrupted(work)
        work.undo()
        assert work.left == work.mask().total - 500
    for name, p in model.net.named_parameters():
        assert torch.equal(p, before[name]), name


@pytest.mark.parametrize("keep", [1, 4321])
def test_any_size_exactly(keep: int) -> None:
    found = magnitude_search(tiny.model(), lambda: 1.0, Magnitude.model_validate({}), keep)
    assert len(found.mask) == keep


def test_a_share_exactly_and_a_threshold_nothing_reaches() -> None:
    found = magnitude_search(tiny.model(), lambda: 1.0, Magnitude.model_validate({"sparsity": 0.7}))
    assert len(found.mask) == round(0.3 * found.mask.total)
    stuck = magnitude_search(tiny.model(), iter([1.0, np.nan]).__next__, Magnitude.model_validate({}))
    assert stuck.mask.share == 1


def test_bits_on_disk_and_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    kept = {"a": rng.random((7, 9)) > 0.5, "b": rng.random((3, 5)) > 0.9}
    mask = WeightMask.of(kept)
    again = WeightMask.load(mask.save(tmp_path / "m.safetensors"))
    assert len(again) == sum(k.sum() for k in kept.values())
    for name, values in kept.items():
        np.testing.assert_array_equal(again.kept(name), values)
    other = WeightMask.of({name: ~values for name, values in kept.items()})
    assert mask.shared(other) == 0
    assert len(mask) + len(other) == mask.total == 78
    assert (tmp_path / "m.safetensors").stat().st_size < 500


def test_eight_weights_a_byte() -> None:
    mask = WeightMask.of({"w": np.ones((1000, 800), bool)})
    assert sum(bits.nbytes for bits in mask.bits.values()) == 100_000


def test_masked_for_a_while() -> None:
    model = tiny.model()
    before = copies(model)
    mask = magnitude_search(model, lambda: 1.0, Magnitude.model_validate({"sparsity": 0.6})).mask
    with weights_masked(model, mask):
        for name, weight in encoder_weights(model).items():
            kept = torch.from_numpy(mask.kept(name))
            assert (weight[~kept] == 0).all()
            assert torch.equal(weight[kept], before[name][kept])
    assert same(model, before)
    with pytest.raises(InputError, match="another model"), weights_masked(tiny.model("gpt2"), mask):
        pass


def test_removed_weights_stay_exactly_zero_through_training(tmp_path: Path) -> None:
    model = tiny.model()
    task = overlap(train=200, validation=20)
    assert task.train is not None
    mask = magnitude_search(model, lambda: 1.0, Magnitude.model_validate({"sparsity": 0.5})).mask
    before = copies(model)
    settings = FineTune(steps=12, batch=8, learning_rate=1e-3, weight_decay=0.1)
    with trained_under(model, mask):
        fine_tune(model, encode(task.train, model.tokenizer, 64), task.train.gold, settings, tmp_path)
        for name, weight in encoder_weights(model).items():
            kept = torch.from_numpy(mask.kept(name))
            assert (weight[~kept] == 0).all()
            assert not torch.equal(weight[kept], before[name][kept])
    assert all(not p._backward_hooks for p in model.net.parameters())


@pytest.mark.parametrize("family", list(tiny.FAMILIES))
def test_shares_of_heads_and_mlps(family: str) -> None:
    """A mask without one head's own columns of the output projection shows there, and nowhere else."""
    model = tiny.model(family)
    kept = {name: np.ones(p.shape, bool) for name, p in encoder_weights(model).items()}
    heads, mlps = unit_shares(model, WeightMask.of(kept))
    assert (heads == 1).all()
    assert (mlps == 1).all()
    place = {id(p): name for name, p in model.net.named_parameters()}
    columns = kept[place[id(model.attention_outs[1].weight)]]
    width = model.head_width
    (columns if family != "gpt2" else columns.T)[:, 2 * width : 3 * width] = False
    kept[place[id(model.mlp_outs[0].weight)]][:] = False
    heads, mlps = unit_shares(model, WeightMask.of(kept))
    assert (heads < 1).sum() == 1
    assert heads[1, 2] < 1
    assert mlps[0] < 1
    assert mlps[1] == 1


def test_weights_of_units() -> None:
    """What a structured mask leaves, counted matrix by matrix."""
    model = tiny.model()
    mask = Mask(np.array([[1, 0, 1, 1], [0, 0, 1, 0]]), np.array([1, 0]))
    d, width, inner = 32, 8, 48
    want = 4 * (4 * d * width) + 1 * (2 * d * inner)
    assert unit_weights(model, mask) == want
    assert unit_weights(model, model.units.full()) == sum(p.numel() for p in encoder_weights(model).values())
