"""The search: its distribution, its constraint, its memory, and whether it finds what was planted."""

from __future__ import annotations

import re
from itertools import islice, product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import get_linear_schedule_with_warmup

import corewood as cw
from corewood.analyse.generalisation import comparable
from corewood.data.encode import encode, shuffled
from corewood.data.overlap import overlap
from corewood.errors import InputError, JobError
from corewood.evaluate.predict import logits_of
from corewood.model.gates import Gates, frozen, gated
from corewood.model.load import Model
from corewood.model.mask import Units
from corewood.model.reference import reference
from corewood.prune.concrete import HIGH, LOW, TEMPERATURE, closed_probability, mean_gate, sample_gates, shift_to
from corewood.prune.exchange import GAIN, Exchanged, Texts, doubt, draw, exchange_round, linearise, proposals
from corewood.prune.final import final_mask, released_rule
from corewood.prune.l0 import (
    Found,
    State,
    batches_of,
    best_of_starts,
    held_out,
    l0_search,
    pins,
    step,
    steps,
    stream,
    target_at,
)
from corewood.spec import L0, kept_units

TASK = overlap(train=400, validation=32, per_case=2)


def test_the_cdf_and_the_mean_equal_monte_carlo() -> None:
    log_alpha = torch.tensor([-4.0, -1.0, 0.0, 1.0, 3.0])
    u = torch.rand(400_000, 5, generator=torch.Generator().manual_seed(0)).clamp(1e-6, 1 - 1e-6)
    z = sample_gates(log_alpha, u)
    assert torch.allclose((z == 0).float().mean(0), closed_probability(log_alpha), atol=3e-3)
    assert torch.allclose(z.mean(0), mean_gate(log_alpha), atol=6e-3)
    # the formula of the methods, written out for one value
    u0, a0 = 0.3, 0.7
    s = 1 / (1 + np.exp(-(np.log(u0) - np.log(1 - u0) + a0) / TEMPERATURE))
    assert float(sample_gates(torch.tensor(a0), torch.tensor(u0))) == pytest.approx(
        np.clip(s * (HIGH - LOW) + LOW, 0, 1), abs=1e-6
    )


@given(st.integers(0, 1000), st.floats(0.02, 0.97))
def test_the_shift_meets_any_target_and_keeps_the_order(seed: int, sparsity: float) -> None:
    log_alpha = torch.randn(78, generator=torch.Generator().manual_seed(seed)) * 2
    shifted = shift_to(log_alpha, sparsity)
    assert float(1 - mean_gate(shifted).mean()) == pytest.approx(sparsity, abs=2e-3)
    order = log_alpha.argsort()
    assert (shifted[order].diff() >= 0).all()


def planted(keep: int, seed: int) -> tuple[Model, np.ndarray]:
    """A model in which only some heads have any influence, and which ones."""
    model = tiny.model(num_hidden_layers=3, num_attention_heads=8, hidden_size=64)
    chosen = np.zeros((3, 8), bool)
    chosen.ravel()[np.random.default_rng(seed).choice(24, keep, replace=False)] = True
    with torch.no_grad():
        for layer in range(3):
            weight = model.attention_outs[layer].weight
            assert isinstance(weight, torch.Tensor)
            for head in range(8):
                part = slice(head * model.head_width, (head + 1) * model.head_width)
                weight[:, part] *= 3.0 if chosen[layer, head] else 0.0
    return model, chosen


def test_a_planted_subnetwork_is_recovered() -> None:
    hits = []
    for seed in range(3):
        model, chosen = planted(keep=6, seed=seed)
        sample = encode(TASK.train, model.tokenizer, 64)  # type: ignore[arg-type]
        shared = reference(model, sample)
        settings = L0(sparsity=1 - 9 / 27, steps=120, batch=16)  # as many units as there are planted heads and MLPs
        found = l0_search(Texts.of(model, sample, shared), settings, seed)
        assert len(found.mask) == 9
        hits.append(int((found.mask.heads & chosen).sum()))
    # by chance 9 units of 27 hold two of six heads
    assert sum(hits) >= 15, hits


def small() -> tuple[Model, L0]:
    return tiny.model(), L0(sparsity=0.6, steps=12, batch=8)


def test_every_seed_has_the_exact_size_and_a_trajectory() -> None:
    model, settings = small()
    sample = encode(TASK.validation, model.tokenizer, 64)
    shared = reference(model, sample)
    before = {name: p.clone() for name, p in model.net.named_parameters()}
    found = [l0_search(Texts.of(model, sample, shared), settings, seed) for seed in range(3)]
    assert {len(f.mask) for f in found} == {kept_units(10, 0.6)} == {4}
    for f in found:
        assert f.trajectory["step"].tolist() == list(range(1, 13))
        assert f.trajectory["target"].iloc[-1] == pytest.approx(0.6)
        assert f.trajectory["expected"].iloc[-1] == pytest.approx(0.6, abs=0.01)
        assert f.trajectory["target"].iloc[3] == pytest.approx(target_at(3, settings)) == pytest.approx(0.6 * 4 / 8.4)
        assert f.trajectory.drop(columns="held").notna().all(axis=None)
        assert f.trajectory["held"].notna().tolist() == [False] * 11 + [True]  # one look, at the end
        assert f.trajectory["examples"].tolist() == [8 * step for step in range(1, 13)]
    assert len({f.mask for f in found}) > 1  # seeds differ
    again = l0_search(Texts.of(model, sample, shared), settings, 1)
    assert (again.log_alpha == found[1].log_alpha).all()
    for name, parameter in model.net.named_parameters():
        assert parameter.equal(before[name])
        assert parameter.requires_grad
    assert not model.net.training


def test_a_stopped_search_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    model, settings = small()
    sample = encode(TASK.validation, model.tokenizer, 64)
    shared = reference(model, sample)
    for more in (
        {},
        {"steps": "auto", "budget": 0.15, "path": (0.3,)},
        {"dropout": True, "noise": "batch"},
        {"constraint": "lagrangian", "rate": 0.1},
    ):
        chosen = settings.model_copy(update=more)
        whole = l0_search(Texts.of(model, sample, shared), chosen, 5)

        class Stopped(Exception):
            pass

        def stop(state: State, auto: bool = chosen.auto) -> None:
            if len(state.exchanged) == 2 if auto else state.step == 7:
                state.save(tmp_path / "state.safetensors")
                raise Stopped

        with pytest.raises(Stopped):
            l0_search(Texts.of(model, sample, shared), chosen, 5, checkpoint=stop)
        rest = l0_search(Texts.of(model, sample, shared), chosen, 5, state=State.load(tmp_path / "state.safetensors"))
        assert (rest.log_alpha == whole.log_alpha).all()
        assert rest.trajectory.equals(whole.trajectory)
        assert rest.mask == whole.mask


def test_the_held_out_kl_is_that_of_texts_that_give_no_gradients() -> None:
    model, settings = small()
    sample = encode(TASK.train, model.tokenizer, 64)  # type: ignore[arg-type]
    shared = reference(model, sample)
    learnt, held = held_out(len(sample))
    assert len(held) == len(sample) // 4
    assert sorted([*learnt, *held]) == list(range(len(sample)))
    found = l0_search(Texts.of(model, sample, shared), settings, 0)
    with gated(model, found.mask, "mean", shared.means):
        logits = model.net(**sample.batch(held)).logits.detach().double()
    full = torch.from_numpy(shared.logits[held]).double().log_softmax(-1)
    want = (full.exp() * (full - logits.log_softmax(-1))).sum(-1).mean()
    assert found.held == pytest.approx((float(want),), rel=1e-4)
    shared.logits[held] = -shared.logits[held]  # what is held out may say anything: the masks stay what they are
    assert l0_search(Texts.of(model, sample, shared), settings, 0).masks == found.masks


def test_exchanges_find_the_planted_subnetwork_from_every_seed() -> None:
    model, chosen = planted(keep=6, seed=1)
    sample = encode(TASK.train, model.tokenizer, 64)  # type: ignore[arg-type]
    shared = reference(model, sample)
    sparsity = 1 - 9 / 27  # as many units as there are planted heads and MLPs
    short = [l0_search(Texts.of(model, sample, shared), L0(sparsity=sparsity, steps=8, batch=16), seed) for seed in range(3)]
    auto = [l0_search(Texts.of(model, sample, shared), L0(sparsity=sparsity, batch=16), seed) for seed in range(3)]
    assert all((f.mask.heads == chosen).all() and f.mask.mlps.all() for f in auto)
    assert all(len(f.mask) == 9 for f in [*auto, *short])
    names = [f"{kind}-{seed}" for kind in ("auto", "short") for seed in range(3)]
    held = pd.Series([f.held[0] for f in [*auto, *short]], names)
    fine = comparable(held, pd.Series(sparsity, names))
    assert fine[:3].all()
    assert not fine[3:].all()  # a search that was stopped early is told from one that is done


def twins() -> tuple[Model, np.ndarray, str, str]:
    """Two heads that do the same: each is enough, and neither is better. With the heads that matter, the second not among
    them, and the names of both."""
    model, chosen = planted(keep=4, seed=2)
    layer, head = (int(i) for i in np.argwhere(chosen)[0])
    twin = int(np.flatnonzero(~chosen[layer])[0])
    width = model.head_width
    with torch.no_grad():
        attention = model.layers[layer].attention.self  # type: ignore[union-attr]
        for module in (attention.query, attention.key, attention.value):  # type: ignore[union-attr]
            module.weight[twin * width : (twin + 1) * width] = module.weight[head * width : (head + 1) * width]
            module.bias[twin * width : (twin + 1) * width] = module.bias[head * width : (head + 1) * width]
        out = model.attention_outs[layer].weight
        assert isinstance(out, torch.Tensor)
        out[:, head * width : (head + 1) * width] /= 2
        out[:, twin * width : (twin + 1) * width] = out[:, head * width : (head + 1) * width]
    return model, chosen, f"L{layer}.H{head}", f"L{layer}.H{twin}"


def test_two_equally_good_subnetworks_are_both_found_over_seeds() -> None:
    model, _, one, other = twins()
    sample = encode(TASK.train, model.tokenizer, 64)  # type: ignore[arg-type]
    shared = reference(model, sample)
    settings = L0(
        sparsity=1 - 7 / 27, batch=16, budget=0.5
    )  # the four heads and three MLPs: one of the twins must go, or another head
    found: set[tuple[bool, bool]] = set()
    for seed in range(6):
        names = l0_search(Texts.of(model, sample, shared), settings, seed).mask.names
        found.add((one in names, other in names))
        if {(True, False), (False, True)} <= found:
            return
    pytest.fail(f"only {found}")


def test_without_either_of_two_redundant_heads_there_is_a_faithful_subnetwork() -> None:
    model, chosen, one, other = twins()
    sample = encode(TASK.train, model.tokenizer, 64)  # type: ignore[arg-type]
    shared = reference(model, sample)
    settings = L0(sparsity=1 - 7 / 27, batch=16, budget=0.5)
    names = model.units.names
    plain = l0_search(Texts.of(model, sample, shared), settings, 1).held[0]
    for gone, stays in ((one, other), (other, one)):
        found = l0_search(Texts.of(model, sample, shared), settings, 0, pinned=pins(names, [gone], [], settings))
        rest = [f"L{layer}.H{head}" for layer, head in np.argwhere(chosen) if f"L{layer}.H{head}" != one]
        assert set(found.mask.names) == {stays, *rest, *(f"L{i}.MLP" for i in range(3))}
        held = pd.Series([plain, found.held[0]], ["plain", "without"])
        assert comparable(held, pd.Series(0.5, held.index)).all()


def test_without_the_one_head_that_carries_everything_no_subnetwork_is_faithful() -> None:
    model, chosen = planted(keep=1, seed=0)
    layer, head = np.argwhere(chosen)[0]
    with torch.no_grad():
        model.attention_outs[layer].weight *= 30  # type: ignore[operator]
    sample = encode(TASK.train, model.tokenizer, 64)  # type: ignore[arg-type]
    shared = reference(model, sample)
    settings = L0(sparsity=0.5, batch=16, budget=0.25)
    names, gone = model.units.names, [f"L{layer}.H{head}"]
    plain = l0_search(Texts.of(model, sample, shared), settings, 0)
    apart = l0_search(Texts.of(model, sample, shared), settings, 0, pinned=pins(names, gone, [], settings))
    with_it = l0_search(Texts.of(model, sample, shared), settings, 0, pinned=pins(names, [], gone, settings))
    assert gone[0] in plain.mask.names
    assert gone[0] not in apart.mask.names
    held = pd.Series([plain.held[0], with_it.held[0], apart.held[0]], ["plain", "with", "without"])
    assert comparable(held, pd.Series(0.5, held.index)).tolist() == [True, True, False]
    assert apart.held[0] > 0.01 > 1000 * plain.held[0]


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"steps": "auto", "budget": 0.15, "path": (0.3,)},
        {"constraint": "lagrangian", "rate": 0.1},
        {
            "constraint": "lagrangian",
            "measure": "sampled",
            "noise": "batch",
            "dropout": True,
            "decay": 0.01,
            "final": "released",
        },
        {"final": "released", "threshold": "search"},
    ],
)
def test_pinned_units_stay_whatever_the_rules_and_a_stopped_search_goes_on_to_the_same_bits(
    more: dict[str, object], tmp_path: Path
) -> None:
    model, settings = small()
    settings = settings.model_copy(update=more)
    sample = encode(TASK.validation, model.tokenizer, 64)
    shared = reference(model, sample)
    closed, held = ["L0.H1", "L1.H0"], ["L1.H3", "L0.MLP"]
    pinned = pins(model.units.names, closed, held, settings)
    states: list[State] = []
    found = l0_search(Texts.of(model, sample, shared), settings, 5, checkpoint=states.append, pinned=pinned)
    for mask, target in zip(found.masks, settings.targets, strict=True):
        assert not set(closed) & set(mask.names)
        assert set(held) <= set(mask.names)
        assert settings.final == "released" or len(mask) == kept_units(10, target)
    assert found.masks[-1] <= found.masks[0]
    for state in states:  # never moved, never drawn, counted in what is expected
        assert (state.values[:-2].numpy()[pinned != 0] == pinned[pinned != 0]).all()
        assert state.values[:-2][pinned == 0].isfinite().all()
    rows = found.trajectory[found.trajectory["round"] == 0]
    assert (rows["live"] <= 10 - 4).all()
    assert (rows["expected"] >= 0.2 - 1e-6).all()
    assert rows["target"].iloc[-1] == pytest.approx(0.6)
    assert rows["target"].iloc[0] == pytest.approx(0.2 + 0.4 * 1 / (settings.ramp * settings.gradient_steps), abs=1e-6)
    if settings.constraint == "exact":
        assert rows["expected"].iloc[-1] == pytest.approx(rows["target"].iloc[-2 if len(rows) > 1 else -1], abs=0.01)
    for place in {len(states) // 3, len(states) - 2}:
        states[place].save(tmp_path / "state.safetensors")
        last = State.load(tmp_path / "state.safetensors")
        rest = l0_search(Texts.of(model, sample, shared), settings, 5, state=last, pinned=pinned)
        assert rest.masks == found.masks
        assert rest.held == found.held
        assert rest.trajectory.equals(found.trajectory)
        assert (rest.log_alpha == found.log_alpha).all()


def test_a_search_takes_names_or_a_mask_and_refuses_what_leaves_no_room() -> None:
    model, settings = small()
    seeds = [0, 1]
    some = cw.search(model, TASK, settings, seeds, sample=40, without="L0.H1 + L1.H0", with_=["L1.MLP"])
    assert not any({"L0.H1", "L1.H0"} & set(mask.names) for mask in some)
    assert all("L1.MLP" in mask.names for mask in some)
    again = cw.search(model, TASK, settings, seeds, sample=40, without=some[0])
    assert all(len(mask) == 4 and not set(mask) & set(some[0]) for mask in again)
    for asked, why in (
        ({"without": "L0.H11"}, "without: the model has no unit 'L0.H11'. Did you mean 'L0.H1'"),
        ({"with_": ["L0.H1"], "without": "L0.H1"}, "with: L0.H1 is to be left out and to be held"),
        ({"without": ~some[0] | model.units.from_vector(np.arange(10) == 9)}, "ask for a larger sparsity"),
        ({"with_": ~some[0]}, "with: 60 % removed keeps 4 of 10 units, fewer than the 6 to hold"),
    ):
        with pytest.raises(InputError, match=re.escape(why)):
            cw.search(model, TASK, settings, seeds, sample=40, **asked)  # type: ignore[arg-type]


def test_an_exchange_needs_no_more_than_a_prediction_and_a_check() -> None:
    """The linear prediction against the real thing, and the best of what is tried against all exchanges one by one."""
    model, _ = planted(keep=6, seed=0)
    sample = encode(TASK.validation, model.tokenizer, 64)
    shared = reference(model, sample)
    texts = Texts.of(model, sample, shared)
    vector = np.random.default_rng(0).permutation(np.arange(27) < 12)
    mask = model.units.from_vector(vector)
    linear = linearise(texts, mask)
    np.testing.assert_allclose(linear.logits, logits_of(model, mask, sample, "mean", texts.means), atol=1e-4)
    small_change = np.zeros((1, 27))
    small_change[0, 3] = 1e-2 if not vector[3] else -1e-2
    gates = torch.tensor(vector + small_change[0], dtype=torch.float32)
    with torch.no_grad(), gated(model, Gates.from_vector(gates, 3, 8), "mean", texts.means):
        want = model.net(**sample.batch(np.arange(len(sample)))).logits.numpy()
    moved = linear.moved(small_change)[0]
    np.testing.assert_allclose(moved[:, 0] - moved[:, 1], want[:, 0] - want[:, 1], atol=2e-3)
    near = [model.units.from_vector(vector ^ (np.arange(27) == unit)) for unit in range(0, 27, 5)] + [mask]
    np.testing.assert_allclose(texts.kl_near(near, linear.ran), [texts.kl_of(one) for one in near], atol=1e-5)


def test_the_weighted_sum_over_drawn_texts_estimates_the_mean() -> None:
    rng = np.random.default_rng(0)
    score = rng.exponential(size=200) ** 4  # what other masks had
    values = score * rng.uniform(0.5, 1.5, 200) + 0.01
    even = np.full(200, 1 / 200)
    every = [draw(score, even, 50, np.random.default_rng(seed)) for seed in range(2000)]
    sums = [float((values[rows] * weight).sum()) for rows, weight in every]
    assert np.mean(sums) == pytest.approx(values.mean(), rel=0.01)
    assert {len(rows) for rows, _ in every} <= {49, 50, 51}
    uniform = [float(np.random.default_rng(seed).choice(values, 50, replace=False).mean()) for seed in range(2000)]
    assert np.std(sums) < np.std(uniform) / 5
    again = [draw(score[rows], weight, 20, np.random.default_rng(seed)) for seed, (rows, weight) in enumerate(every)]
    sums = [float((values[rows][some] * weight).sum()) for (rows, _), (some, weight) in zip(every, again, strict=True)]
    assert np.mean(sums) == pytest.approx(values.mean(), rel=0.02)  # a draw of a draw
    rows, weight = draw(score[:10], even[:10], 50, np.random.default_rng(0))  # fewer than asked for: all of them
    assert sorted(rows) == list(range(10))
    assert (weight == even[:10]).all()
    rows, weight = draw(np.zeros(200), even, 50, np.random.default_rng(0))  # nothing is known of any: evenly
    assert weight == pytest.approx(1 / 50)


def test_texts_that_the_full_model_is_in_doubt_of_are_looked_at_first() -> None:
    model, _ = planted(keep=6, seed=2)
    sample = encode(TASK.train, model.tokenizer, 64).take(np.arange(80))  # type: ignore[arg-type]
    shared = reference(model, sample)
    logits = shared.logits.copy()
    logits[:, 0] += np.where(np.arange(80) % 8, 9.0, 0.0) - logits[:, 0] + logits[:, 1]  # one in eight is wholly in doubt
    doubts = 1 - (np.exp(logits) / np.exp(logits).sum(1, keepdims=True)).max(1)
    assert doubt(logits) == pytest.approx(doubts, abs=1e-7)
    texts = Texts(model, sample, logits, shared.means, "mean")
    mask = model.units.from_vector(np.arange(27) < 12)
    budget = 24 / 2048  # of the mask's run: 24 of 80 texts, of which 9 are checked
    begun = [Exchanged.start(mask, texts, texts, budget, np.random.default_rng(seed)) for seed in range(30)]
    checked = np.concatenate([state.checked for state in begun])
    assert np.mean(checked % 8 == 0) > 0.3  # 0.125 evenly
    each = texts.kl_of(mask)
    assert np.mean([state.value for state in begun]) == pytest.approx(each.mean(), rel=0.15)  # weights make up for it
    for state in begun:
        assert state.value == pytest.approx(float((each[state.checked] * state.stands_for).sum()), rel=1e-5)


def test_exchanges_are_checked_and_end_where_no_exchange_is_better() -> None:
    model, _ = planted(keep=6, seed=2)
    sample = encode(TASK.train, model.tokenizer, 64).take(np.arange(80))  # type: ignore[arg-type]
    shared = reference(model, sample)
    texts = Texts.of(model, sample, shared)
    learnt, held = (texts.take(rows) for rows in held_out(len(sample)))
    mask = model.units.from_vector(np.random.default_rng(1).permutation(np.arange(27) < 12))
    state = Exchanged.start(mask, learnt, held, 0.7, np.random.default_rng(0))
    assert len(state.drawn) == len(learnt)  # so few texts are all drawn
    first = state.value
    with frozen(model, dropout=False):
        while not state.done and state.round < 30:
            after = exchange_round(learnt, held, state, np.zeros(27, bool), 0.7, np.random.default_rng(state.round))
            each = learnt.take(after.checked).kl_of(model.units.from_vector(after.sure))
            assert after.value == pytest.approx(float((each * after.stands_for).sum()), rel=1e-5)
            assert after.value <= state.value
            assert after.held == pytest.approx(held.kl_of(model.units.from_vector(after.best)), abs=1e-7)
            rise = after.held - state.held
            assert rise.mean() <= rise.std(ddof=1) / len(rise) ** 0.5
            state = after
    assert state.done
    assert state.rows[0]["examples"] >= len(learnt) + len(learnt) + 5 * len(learnt)  # the start, the slopes, five exchanges
    assert (state.vector == state.sure).all()
    assert state.value < first
    others = []  # every exchange there is
    for opened, closed in product(np.flatnonzero(state.sure), np.flatnonzero(~state.sure)):
        vector = state.sure.copy()
        vector[[opened, closed]] = False, True
        others.append(model.units.from_vector(vector))
    values = np.stack([learnt.kl_of(other) for other in others]).mean(1)
    assert values.min() > (1 - GAIN) * state.value


def test_what_is_not_tried_would_not_have_been_taken() -> None:
    """Rounds against ones that run every proposal."""
    model, _ = planted(keep=6, seed=2)
    sample = encode(TASK.train, model.tokenizer, 64).take(np.arange(60))  # type: ignore[arg-type]
    shared = reference(model, sample)
    texts = Texts.of(model, sample, shared)
    run, proposed, moved = 0, 0, 0
    for seed in range(3):
        mask = model.units.from_vector(np.random.default_rng(seed).permutation(np.arange(27) < 12))
        state = Exchanged.start(mask, texts, texts, 0.7, np.random.default_rng(0))
        with frozen(model, dropout=False):
            while not state.done and state.round < 12:
                here = texts.take(state.checked[state.drawn])
                linear = linearise(here, model.units.from_vector(state.vector))
                tried, _ = proposals(linear, here.full, state, np.zeros(27, bool))
                got = np.array([(here.kl_of(model.units.from_vector(one)) * state.weights).sum() for one in tried])
                now = float((here.kl_of(model.units.from_vector(state.vector)) * state.weights).sum())
                after = exchange_round(texts, texts, state, np.zeros(27, bool), 0.7, np.random.default_rng(state.round))
                run += round(after.rows[-1]["examples"] / len(here)) - 1
                proposed += len(tried)
                best, left = got.min() / now, 0.02  # predictions are hopeful, but for a hundredth or two
                if after.moves > state.moves:
                    moved += 1
                    assert got[(tried == after.vector).all(1)] / now == pytest.approx(best, abs=left)
                elif state.moves == 0:  # nothing was taken
                    assert best > 1 - GAIN - left
                state = after
    assert moved == 3
    assert run < proposed


def test_a_text_that_counts_three_times_is_as_good_as_three_texts() -> None:
    model = tiny.model()
    sample = encode(TASK.train, model.tokenizer, 64).take(np.arange(40))  # type: ignore[arg-type]
    full = np.random.default_rng(0).normal(0, 2, (40, 2)).astype(np.float32)  # far from what the model says
    texts = Texts(model, sample, full, reference(model, sample).means, "mean")
    settings = L0(sparsity=0.5, steps=4, batch=4, noise="batch")  # one draw of the gates for all texts
    begun = State.start(len(model.units), settings, 0)
    with frozen(model, dropout=False):
        (one,) = steps(texts, [(np.array([3, 3, 3, 7]), np.ones(4))], settings, [0], [begun])
        (other,) = steps(texts, [(np.array([3, 7]), np.array([1.5, 0.5]))], settings, [0], [begun])
    assert one.rows[0]["kl"] == pytest.approx(other.rows[0]["kl"], rel=1e-4)
    torch.testing.assert_close(one.first, other.first, rtol=1e-3, atol=1e-7)  # Adam's first moment is the gradient's


def test_the_steps_of_a_search_prefer_texts_in_doubt_and_make_up_for_it() -> None:
    model = tiny.model()
    sample = encode(TASK.train, model.tokenizer, 64)  # type: ignore[arg-type]
    full = np.tile([4.0, -4.0], (len(sample), 1))
    rare = np.arange(5, len(sample), 40)
    full[rare] = [0.1, -0.1]
    texts = Texts(model, sample, full, reference(model, sample).means, "mean")
    learnt, _ = held_out(len(sample))
    rare = np.intersect1d(rare, learnt)
    auto = L0(sparsity=0.5, batch=8, budget=0.125)  # eight steps of eight, fewer than there are texts
    seen = list(islice(batches_of(texts, learnt, auto, 3), auto.gradient_steps))
    rows, counts = (np.concatenate(part) for part in zip(*seen, strict=True))
    assert len({*rows}) == len(rows) == 64
    assert {*rare} <= {*rows} <= {*learnt}
    assert counts[np.isin(rows, rare)].max() < 0.5 < 1 < counts[~np.isin(rows, rare)].min()
    assert counts.sum() / 64 == pytest.approx(1, rel=0.05)  # the mean over all texts, of a value that is 1 everywhere,
    assert counts[np.isin(rows, rare)].sum() / 64 == pytest.approx(len(rare) / len(learnt), rel=0.05)  # or on the rare ones
    fixed = next(batches_of(texts, learnt, L0(sparsity=0.5, steps=8, batch=8), 3))
    assert fixed[1].tolist() == [1.0] * 8
    assert fixed[0].tolist() == learnt[next(shuffled(sample.lengths[learnt], 8, 3))].tolist()


def test_the_multipliers_pull_towards_the_target() -> None:
    model, _ = small()
    sample = encode(TASK.validation, model.tokenizer, 64)
    settings = L0(sparsity=0.5, steps=150, batch=8, constraint="lagrangian", rate=0.1, lambda_rate=0.3)
    found = l0_search(Texts.of(model, sample, reference(model, sample)), settings, 0)
    assert found.trajectory["closed"].iloc[0] < 0.05
    assert found.trajectory["closed"].iloc[-1] == pytest.approx(0.5, abs=0.15)


def test_steps_of_the_papers_preset_equal_the_released_rules_written_out() -> None:
    """torch's AdamW with its weight decay left on, for gates and multipliers alike; transformers' schedule; a target that
    begins at 0; batches of 128 in four parts with a draw each; one norm for all gradients."""
    model = tiny.model(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    sample = encode(TASK.validation, model.tokenizer, 64)
    texts = Texts(model, sample, reference(model, sample).logits, reference(model, sample).means, "mean")
    paper = L0.paper(0.5)
    assert (paper.start, paper.start_std, paper.batch, paper.parts, paper.steps) == (10.0, 0.01, 128, 4, 9300)
    settings = paper.model_copy(
        update={"steps": 30, "batch": 16, "warmup": 4, "start": 2.0}
    )  # at 10, no gate moves in 20 steps
    batches = [np.random.default_rng(k).integers(0, len(sample), 16) for k in range(20)]
    state = State.start(len(model.units), settings, 0)
    gates = torch.nn.Parameter(state.values[:-2].clone())
    one, two = torch.nn.Parameter(torch.tensor(0.0)), torch.nn.Parameter(torch.tensor(0.0))
    optimizer = torch.optim.AdamW([{"params": [gates]}, {"params": [one, two], "maximize": True, "lr": 1.0}], lr=0.1)
    schedule = get_linear_schedule_with_warmup(optimizer, 4, 30)
    with frozen(model, dropout=False):
        for number, batch in enumerate(batches):
            state = step(texts, batch, settings, 0, state)
            generator = torch.Generator().manual_seed(stream(0, number))
            target = 0.5 * min(1.0, number / (settings.ramp * 30))
            for part in (batch[:4], batch[4:8], batch[8:12], batch[12:]):
                u = torch.rand(10, generator=generator) * (1 - 2e-6) + 1e-6
                s = torch.sigmoid((torch.log(u) - torch.log(1 - u) + gates) / (2 / 3))
                z = torch.nn.functional.hardtanh(1.2 * s - 0.1, 0, 1)
                with gated(model, Gates.from_vector(z, 2, 4), "mean", texts.means):
                    logits = model.net(**sample.batch(part, model.device)).logits
                full = torch.from_numpy(texts.full[part])
                kl = torch.nn.functional.kl_div(
                    logits.log_softmax(-1), full.log_softmax(-1), reduction="batchmean", log_target=True
                )
                gap = target - (1 - z.mean())
                ((kl + one * gap + two * gap**2) / 4).backward()
            torch.nn.utils.clip_grad_norm_([gates, one, two], 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            assert state.values[:-2].numpy() == pytest.approx(gates.detach().numpy(), abs=1e-4)
            assert state.values[-2:].tolist() == pytest.approx([one.item(), two.item()], abs=1e-4)
    assert abs(one.item()) > 0.5  # the multipliers moved
    assert float((gates.detach() - 2.0).abs().max()) > 0.05


def released_by_loop(log_alpha: np.ndarray, layers: int, heads: int, threshold: float) -> list[bool]:
    """Tensor by tensor: the heads of a layer are one, and so is every MLP."""
    kept = []
    tensors = [log_alpha[i * heads : (i + 1) * heads] for i in range(layers)] + [a[None] for a in log_alpha[layers * heads :]]
    for tensor in tensors:
        soft = [1 / (1 + np.exp(-0.8 * a / (2 / 3))) for a in tensor]
        zeros = round(sum(1 / (1 + np.exp(a - 2 / 3 * np.log(0.1 / 1.1))) for a in tensor))
        for place in sorted(range(len(soft)), key=lambda k: soft[k])[:zeros]:
            soft[place] = 0
        kept += [value > threshold for value in soft]
    return kept


@given(st.integers(0, 10_000), st.sampled_from([0.35, 0.5, 0.65]))
def test_the_released_rule_tensor_by_tensor(seed: int, threshold: float) -> None:
    units = Units(3, 4, 4, 1, 1, 1, 1, 1)
    log_alpha = np.random.default_rng(seed).normal(0, 1.5, len(units))
    assert released_rule(log_alpha, units, threshold).vector.tolist() == released_by_loop(log_alpha, 3, 4, threshold)


def test_mlps_are_rounded_one_by_one() -> None:
    units = Units(12, 12, 12, 1, 1, 1, 1, 1)
    log_alpha = np.full(len(units), 9.0)
    log_alpha[144:] = 2 / 3 * np.log(0.1 / 1.1) - np.log(0.2 / 0.8)  # each is closed with probability 0.2
    assert released_rule(log_alpha, units, 0.35).mlps.all()


@given(st.integers(0, 10_000), st.sampled_from([0.3, 0.5, 0.7]))
def test_the_papers_grid_of_thresholds_comes_closest_to_the_size(seed: int, sparsity: float) -> None:
    units = Units(4, 6, 6, 1, 1, 1, 1, 1)
    log_alpha = np.random.default_rng(seed).normal(0.2, 1.0, len(units))
    settings = L0.paper(sparsity).model_copy(update={"threshold": "search"})
    off = [abs(sum(released_by_loop(log_alpha, 4, 6, k * 0.05)) - (1 - sparsity) * 28) for k in range(21)]
    assert abs(len(final_mask(log_alpha, units, settings)) - (1 - sparsity) * 28) == pytest.approx(min(off))


@pytest.mark.parametrize("path", [(), (0.3,)])
def test_more_starts_are_never_worse_and_the_first_is_the_seed_itself(path: tuple[float, ...]) -> None:
    model = tiny.model(num_hidden_layers=3, num_attention_heads=8, hidden_size=64)
    sample = encode(TASK.validation, model.tokenizer, 64)
    shared = reference(model, sample)
    settings = L0(sparsity=0.5, path=path, budget=0.1, rounds=1, batch=8)  # too short to end at one mask from every start
    each: dict[int, Found] = {}  # by seed, in the order of starting

    def from_start(start: int, seed: int) -> Found:
        each.setdefault(seed, l0_search(Texts.of(model, sample, shared), settings, seed))
        return each[seed]

    sums, asked = [], []
    for starts in (1, 2, 4):
        best = best_of_starts(from_start, settings.model_copy(update={"starts": starts}), 5)
        sums.append(sum(best.held))
        asked.append(len(each))
        assert sums[-1] == min(sum(found.held) for found in each.values())
        assert best.masks[-1] <= best.masks[0]  # along a path all from one start
    assert next(iter(each)) == 5
    assert asked == [1, 2, 4]  # more starts are those of before, and others
    assert sums == sorted(sums, reverse=True)
    assert sums[-1] < sums[0]


def test_progress_counts_what_a_plan_does() -> None:
    """A plan's work, of any number of starts, is what progress counts up to; rounds come near it, however many they are."""
    model, _ = small()
    sample = encode(TASK.validation, model.tokenizer, 64)
    settings = L0(sparsity=0.5, path=(0.3,), budget=0.1, batch=8, starts=3)
    assert settings.work == 3 * settings.model_copy(update={"starts": 1}).work == 3 * (6 * 8 + 2 * 2 * 40)
    told: list[tuple[int, int]] = []
    l0_search(Texts.of(model, sample, reference(model, sample)), settings, 0, progress=lambda *now: told.append(now))
    assert {total for _, total in told} == {settings.work // 3}
    done = [now for now, _ in told]
    assert done == sorted(done)
    assert done[:6] == [8, 16, 24, 32, 40, 48]
    assert done[6] == 48 + round(80 * (1 - np.exp(-1 / 2)))  # the first of two rounds that are usual here
    assert done[-1] < settings.work // 3
    many = [L0(sparsity=0.5).work_of(64, 0, rounds) for rounds in range(25)]
    assert many == sorted(set(many))  # every round is seen
    assert many[-1] < L0(sparsity=0.5).work


def test_a_loss_that_is_not_a_number_is_an_error_with_a_step() -> None:
    model, settings = small()
    sample = encode(TASK.validation, model.tokenizer, 64)
    shared = reference(model, sample)
    with torch.no_grad():
        next(model.net.parameters()).fill_(float("nan"))
    with pytest.raises(JobError, match="not a number at step 1"):
        l0_search(Texts.of(model, sample, shared), settings, 0)


def test_a_path_gives_nested_masks_of_exact_sizes_and_ends_where_a_plain_search_does(tmp_path: Path) -> None:
    model, settings = small()
    sample = encode(TASK.validation, model.tokenizer, 64)
    shared = reference(model, sample)
    along = settings.model_copy(update={"path": (0.2, 0.4)})
    found = l0_search(Texts.of(model, sample, shared), along, 3)
    assert [len(m) for m in found.masks] == [kept_units(10, s) for s in (0.2, 0.4, settings.sparsity)]
    assert found.masks[2] <= found.masks[1] <= found.masks[0]
    assert found.mask == l0_search(Texts.of(model, sample, shared), settings, 3).mask
    states: list[State] = []
    l0_search(Texts.of(model, sample, shared), along, 3, checkpoint=states.append)
    target = settings.sparsity * np.minimum(1, np.arange(1, settings.steps + 1) / (settings.ramp * settings.steps))
    first = [int((target >= s - 1e-9).argmax()) for s in (0.2, 0.4)]
    for row, at in enumerate(first):  # gates as they stood when the target first reached each sparsity
        assert states[at].way[row].equal(states[at].values[:-2])
        assert states[at - 1].way[row].isnan().all()
        assert states[-1].way[row].equal(states[at].way[row])
    states[6].save(tmp_path / "state.safetensors")
    rest = l0_search(Texts.of(model, sample, shared), along, 3, state=State.load(tmp_path / "state.safetensors"))
    assert rest.masks == found.masks
