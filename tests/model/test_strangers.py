"""What library calls do with what they were not made for: a model that someone trains, gates that cannot be, odd arguments."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from torch import nn

import corewood as cw
from corewood.data.encode import encode
from corewood.data.overlap import overlap
from corewood.errors import InputError
from corewood.model.first_token import first_token
from corewood.model.gates import frozen
from corewood.model.reference import reference
from corewood.model.resume import variants
from corewood.prune.exchange import Texts
from corewood.prune.l0 import State, l0_search, pins, step

TASK = overlap(seed=3, train=60, validation=24, per_case=2)
MASK = cw.Mask(np.array([[1, 0, 0, 1], [0, 1, 0, 0]]), np.array([1, 0]))


def model_with_means(family: str = "bert", **settings: object) -> cw.Model:
    model = tiny.model(family, **settings)
    cw.mean_activations(model, TASK.validation)
    return model


def test_a_model_that_was_being_trained_is_judged_at_rest() -> None:
    model = model_with_means()
    want = cw.predict(model, [MASK], TASK.validation, progress=False)
    means, units = model.means, [model.units.without("L1.H2")]
    ablated = cw.ablate(model, units, TASK.validation)
    model.net.train()
    model.net.classifier.eval()
    found = cw.predict(model, [MASK], TASK.validation, progress=False)
    assert np.array_equal(found.logits, want.logits)
    assert np.array_equal(found.full, want.full)
    assert np.array_equal(cw.ablate(model, units, TASK.validation), ablated)
    assert means is not None
    assert torch.equal(cw.mean_activations(model, TASK.validation).heads, means.heads)
    assert model.net.training  # as it was
    assert not model.net.classifier.training


def test_fine_tuning_that_fails_leaves_a_model_at_rest_without_old_means(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_with_means()

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("corewood.model.tune.bar", lambda *_: nullcontext(stop))
    with pytest.raises(KeyboardInterrupt):
        cw.fine_tune(model, TASK, steps=3, batch=4)
    assert not model.net.training
    assert model.means is None


class MeanPooler(nn.Module):
    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden.mean(1)


def test_a_pooler_of_ones_own_reads_what_it_likes() -> None:
    model = tiny.model("bert")
    model.net.bert.pooler = MeanPooler()
    examples = encode(TASK.validation, model.tokenizer, 64)
    with torch.inference_mode():
        want = torch.cat([model.net(**examples.batch(np.array([i]))).logits for i in range(len(examples))])
        with first_token(model):
            found = torch.cat([model.net(**examples.batch(np.array([i]))).logits for i in range(len(examples))])
    assert torch.equal(found, want)


def test_searches_with_dropout_draw_what_they_always_drew(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_with_means()
    examples = encode(TASK.train, model.tokenizer, 64)
    full = reference(model, examples)
    texts = Texts.of(model, examples, full)
    settings = cw.L0.paper(0.5).model_copy(update={"batch": 8, "parts": 2})

    def after_a_step() -> torch.Tensor:
        with frozen(model, dropout=True):
            return step(texts, np.arange(8), settings, 0, State.start(len(model.units), settings, 0)).values

    found = after_a_step()
    monkeypatch.setattr("corewood.model.first_token.reads_first", lambda _model: False)
    assert torch.equal(after_a_step(), found)


def test_gates_and_means_must_be_the_models() -> None:
    model = model_with_means()
    for gates, said in (
        (cw.Gates(torch.full((2, 4), 2.0), torch.ones(2)), "from 0, closed, to 1, open"),
        (cw.Gates(torch.full((2, 4), torch.nan), torch.ones(2)), "from 0, closed, to 1, open"),
        (cw.Gates(torch.ones(3, 4), torch.ones(3)), "the model has"),
        (cw.Gates(torch.ones(2, 2), torch.ones(2)), "the model has"),
    ):
        with pytest.raises(InputError, match=said), cw.gated(model, gates):
            pass
    other = tiny.model("bert", num_hidden_layers=3)
    means = cw.mean_activations(other, TASK.validation)
    with pytest.raises(InputError, match="not of this model; make them anew"):
        cw.predict(model, MASK, TASK.validation, means=means, progress=False)
    with pytest.raises(InputError, match="not of this model; make them anew"), cw.gated(model, MASK, means=means):
        pass


def test_a_mask_inside_another_is_refused() -> None:
    model = model_with_means()
    with cw.gated(model, MASK):
        with pytest.raises(InputError, match="one & other"):
            cw.slim(model, MASK)
        with pytest.raises(InputError, match="one & other"):
            cw.predict(model, MASK, TASK.validation, progress=False)
    assert cw.slim(model, MASK).num_parameters() < model.net.num_parameters()


def test_a_regression_has_no_probabilities_to_keep() -> None:
    model = tiny.model("bert", labels=("score",))
    with pytest.raises(InputError, match="a number has none"):
        cw.search(model, TASK, cw.L0(sparsity=0.5, steps=2, batch=4), seeds=1, progress=False)


def test_odd_arguments_are_told(tmp_path: Path) -> None:
    model = model_with_means()
    with pytest.raises(InputError, match="choose both, heads or mlps"):
        cw.prune_units(model, TASK.validation, cw.Importance(sparsity=0.5), prune="head", progress=False)
    with pytest.raises(InputError, match="take 1 or more"):
        cw.mean_activations(model, TASK.validation, examples=0)
    with pytest.raises(InputError, match="cannot be read as a mask of weights"):
        cw.WeightMask.load(tmp_path / "none.safetensors")
    with pytest.raises(InputError, match="holds no mask of weights"):
        cw.WeightMask.load(MASK.save(tmp_path / "units.safetensors"))
    with pytest.raises(InputError, match="takes a mask of weights, not Mask"):
        cw.weight_tickets(MASK)
    with pytest.raises(InputError, match="leave none to search for"):
        pins(model.units.names, model.units.names[:4], model.units.names[4:], cw.L0(sparsity=0.4))
    assert cw.super_tickets(MASK)["good"] == MASK
    assert cw.unit_tickets(MASK, seed=np.int64(3)) == cw.unit_tickets(MASK, seed=3)
    assert cw.ablate(model, MASK, TASK.validation).shape == (1, 24, 2)
    assert cw.ablate(model, [], TASK.validation, "resample").shape == (0, 24, 2)
    model.save(tmp_path / "saved")
    for labels in ("ab", ["yes", "yes"]):
        with pytest.raises(InputError, match="a list of names, each once"):
            cw.load(tmp_path / "saved", labels=labels)


def test_a_size_that_a_path_never_came_to_has_the_gates_of_the_end() -> None:
    model = model_with_means()
    examples = encode(TASK.train, model.tokenizer, 64)
    settings = cw.L0(sparsity=0.8, path=(0.2, 0.4, 0.7), steps=4, batch=4, ramp=1.0, counts_from=0)
    found = l0_search(Texts.of(model, examples, reference(model, examples)), settings, 0)
    inside, larger = found.masks[-1].vector, found.masks[-2].vector
    (more,) = np.flatnonzero(larger & ~inside)
    assert more == np.where(inside, -np.inf, found.log_alpha).argmax()


def test_positions_of_deberta_are_not_taken_for_examples() -> None:
    settings = dict(relative_attention=True, position_buckets=8, norm_rel_ebd="layer_norm", pos_att_type=["p2c", "c2p"])
    model = model_with_means("deberta-v2", **settings)
    few = encode(TASK.validation, model.tokenizer, 64).take(np.arange(4))
    masks = [model.units.without(f"L0.H{head}") for head in range(4)]  # 4 examples x 4 masks: as many rows as positions
    found = variants(model, masks, few, model.units.full(), "mean", model.means)
    one = [variants(model, [mask], few, model.units.full(), "mean", model.means)[0] for mask in masks]
    assert np.allclose(found, np.stack(one), atol=1e-5)
