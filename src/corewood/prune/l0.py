"""L0 search: gates drawn from a hard concrete distribution, trained to keep the full model's predictions.

Wang et al. 2020 for the Lagrangian, the Heuristic Core (section 3.1, appendix B) for its use on heads and MLPs. docs/methods.md
says where the default differs from the released code. The distribution is in prune/concrete.py.

A part of the sample is held out: it gives no gradients and proposes no exchanges, and says how good the hard mask is. With
`steps: auto` the soft gates are followed by rounds of exchanges (prune/exchange.py).

Units may be pinned: a log_alpha of minus infinity is a gate that is always closed, of infinity one that is always open. Such
gates have no noise and no gradient, stay what they are under every rule below, and count in every sparsity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor

from corewood import seal
from corewood.data.encode import shuffled
from corewood.errors import InputError, JobError
from corewood.model.first_token import first_token
from corewood.model.gates import Gates, frozen, gated
from corewood.model.mask import Mask
from corewood.model.reference import Progress, no_progress
from corewood.prune.concrete import EDGE, closed_probability, mean_gate, sample_gates, shift_to
from corewood.prune.exchange import LOOK, Exchanged, Texts, doubt, draw, exchange_round
from corewood.prune.final import containing, final_mask, largest
from corewood.spec import L0, kept_units

ADAM = (0.9, 0.999, 1e-8)
# of the trajectory; a round of exchanges has no soft gates, and so no `expected`, `sampled`, `closed`, `live` and `gap`
COLUMNS = ("step", "round", "target", "expected", "sampled", "closed", "kl", "live", "gap", "examples", "held")
TENSORS = ("values", "first", "second", "way")  # of the state of a search
HELD_OUT = 384  # texts at the most, or a quarter of a small sample
HALF_SCALE = 1024.0  # on the loss in float16, whose smallest numbers are large; taken off again
LOOK_EVERY = 256  # examples of gradient steps between two looks, and
LOOKS = 256  # so many of them at the most, about: a long search is not to spend its time on looks
Batch = tuple[np.ndarray, np.ndarray]  # which texts, and how much each counts: 1 on average


def target_at(step: int, settings: L0, pinned: float = 0.0) -> float:
    """Grows linearly from 0, or from the share of units that are closed from the start, then holds."""
    grown = min(1.0, (step + settings.counts_from) / max(1.0, settings.ramp * settings.gradient_steps))
    begin = min(pinned, settings.sparsity)
    return begin + (settings.sparsity - begin) * grown


def closed_share(log_alpha: Tensor) -> float:
    """Of units that are pinned closed."""
    return float((log_alpha == -math.inf).float().mean())


def rate_at(step: int, settings: L0) -> float:
    """Factor on the learning rates: warm-up, then linear decay where asked for."""
    warm = min(1.0, (step + settings.counts_from) / settings.warmup) if settings.warmup else 1.0
    left = (settings.gradient_steps - step) / max(1, settings.gradient_steps - settings.warmup)
    return min(warm, left) if settings.linear_decay else warm


def pins(names: Sequence[str], closed: Collection[str], held: Collection[str], settings: L0, key: str = "") -> np.ndarray:
    """(unit,) minus infinity where a unit stays closed, infinity where it stays open, 0 where it is searched for.

    Refused where a size that is asked for leaves no room; `key` is where the units were named.
    """
    both = [name for name in names if name in closed and name in held]
    if both:
        raise InputError(f"{key}with: {both[0]} is to be left out and to be held; name it once")
    if len({*closed, *held}) == len(names):
        raise InputError(f"{key}without, {key}with: name every unit, and leave none to search for; name fewer")
    for sparsity in settings.targets:
        kept = kept_units(len(names), sparsity)
        left, size = len(names) - len(closed), f"{100 * sparsity:g} % removed keeps {kept} of {len(names)} units"
        if kept > left:
            raise InputError(
                f"{key}without: {size}, and without {len(closed)} of them {left} are left; ask for a larger sparsity, or leave "
                "out fewer units"
            )
        if kept < len(held):
            raise InputError(f"{key}with: {size}, fewer than the {len(held)} to hold; ask for a smaller one, or hold fewer")
    return np.where(np.isin(names, [*closed]), -np.inf, np.where(np.isin(names, [*held]), np.inf, 0.0))


@dataclass(frozen=True)
class State:
    """Everything a search needs to go on: a few hundred numbers."""

    values: Tensor  # (unit + 2,) log_alpha, then lambda1 and lambda2
    first: Tensor  # (unit + 2,) Adam's moments
    second: Tensor
    way: Tensor  # (sparsity of the path, unit) log_alpha when the target first reached it; not a number before
    rows: tuple[dict[str, float], ...] = field(default=(), repr=False)  # the trajectory so far
    exchanged: tuple[Exchanged, ...] = field(default=(), repr=False)  # one per size begun, from the sparsest back

    @property
    def step(self) -> int:
        return len(self.rows)

    @classmethod
    def start(cls, units: int, settings: L0, seed: int, pinned: np.ndarray | None = None) -> State:
        noise = torch.randn(units, generator=torch.Generator().manual_seed(stream(seed, -1)))
        gates = settings.start + settings.start_std * noise
        if pinned is not None:
            gates = gates + torch.from_numpy(pinned).float()
        values = torch.cat([gates, torch.zeros(2)])
        way = torch.full((len(settings.path), units), torch.nan)
        return cls(values, torch.zeros_like(values), torch.zeros_like(values), way)

    def save(self, path: Path) -> None:
        rows = torch.tensor([[row[c] for c in COLUMNS] for row in self.rows], dtype=torch.float64)
        arrays = {name: getattr(self, name) for name in TENSORS} | {"rows": rows}
        for place, one in enumerate(self.exchanged):
            arrays |= one.arrays(f"{place}.")
        save_file(arrays, seal.part_of(path))
        seal.keep(path)

    @classmethod
    def load(cls, path: Path, doubt: Callable[[str], None] = lambda _what: None) -> State | None:
        """What `save` left there; nothing where that is damaged, of which `doubt` is told."""
        file, damaged = seal.kept(path)
        if damaged:
            doubt("what was saved of the search is damaged")
        if file is None:
            return None
        saved = load_file(file)
        rows = tuple(dict(zip(COLUMNS, row, strict=True)) for row in saved["rows"].tolist())
        begun = sum(name.endswith(".numbers") for name in saved)
        exchanged = tuple(Exchanged.from_arrays(saved, f"{place}.") for place in range(begun))
        return cls(**{name: saved[name] for name in TENSORS}, rows=rows, exchanged=exchanged)


def stream(seed: int, step: int) -> int:
    """A seed for the noise of one step, or (below -1) of another start: a stopped search draws what it would have drawn."""
    return int(np.random.SeedSequence([seed, step + 1 if step >= -1 else 2**32 + step]).generate_state(1)[0])


def adam(state: State, gradient: Tensor, settings: L0) -> State:
    """One step of AdamW; the multipliers climb, the gates descend."""
    beta1, beta2, epsilon = ADAM
    count = state.step + 1
    first = beta1 * state.first + (1 - beta1) * gradient
    second = beta2 * state.second + (1 - beta2) * gradient**2
    scale = second / (1 - beta2**count)
    if settings.constraint == "exact":
        scale = scale[:-2][state.values[:-2].isfinite()].mean()
    move = (first / (1 - beta1**count)) / (scale.sqrt() + epsilon)
    factor = rate_at(state.step, settings)
    gates, lambdas = state.values[:-2], state.values[-2:]
    pinned = closed_share(gates)
    gates = gates * (1 - factor * settings.rate * settings.decay) - factor * settings.rate * move[:-2]
    if settings.constraint == "exact":
        gates = shift_to(gates, target_at(count, settings, pinned))
    else:
        leak = factor * settings.lambda_rate * settings.lambda_decay
        lambdas = lambdas * (1 - leak) + factor * settings.lambda_rate * move[-2:]
    way = state.way.clone()
    for row, sparsity in zip(way, settings.targets, strict=False):
        if target_at(state.step, settings, pinned) >= sparsity - 1e-9 and bool(row.isnan().any()):
            row.copy_(gates)
    return replace(state, values=torch.cat([gates, lambdas]), first=first, second=second, way=way)


@dataclass(frozen=True)
class Found:
    """The subnetworks of one search, in rising sparsity, and how they were found."""

    masks: tuple[Mask, ...]
    held: tuple[float, ...]  # of each, the KL on all held-out texts
    ended: tuple[bool, ...]  # of each, whether no exchange was left to make; a search stopped at its last step has not
    log_alpha: np.ndarray  # (unit,)
    trajectory: pd.DataFrame = field(repr=False)  # one row per step, then one per round of exchanges

    @property
    def mask(self) -> Mask:
        """The one the search ended at."""
        return self.masks[-1]


def held_out(count: int) -> tuple[np.ndarray, np.ndarray]:
    """(texts to search on, texts held out) of a sample: the same for every seed and size. Very few texts are both."""
    if count < 8:  # resampled values need two examples
        return np.arange(count), np.arange(count)
    order = np.random.default_rng(0x4E).permutation(count)
    kept = min(HELD_OUT, count // 4)
    return np.sort(order[kept:]), np.sort(order[:kept])


def l0_search(
    texts: Texts,
    settings: L0,
    seed: int,
    progress: Progress = no_progress,
    state: State | None = None,
    checkpoint: Callable[[State], None] | None = None,
    pinned: np.ndarray | None = None,
) -> Found:
    """One subnetwork per target. `state` continues a search that `checkpoint` was told of; `pinned` is what `pins` gives."""
    units = texts.model.units
    state = state or State.start(len(units), settings, seed, pinned)
    tell = checkpoint or (lambda _state: None)
    learnt, held = (texts.take(rows) for rows in held_out(len(texts)))
    total = settings.work // settings.starts

    def told(states: Sequence[State]) -> None:
        progress(settings.work_of(states[0].step), total)
        tell(states[0])

    (state,) = descend(texts, settings, [seed], [state], told)
    log_alpha = state.values[:-2].numpy()
    masks: list[Mask] = []
    values: list[float] = []  # on all held-out texts
    with frozen(texts.model, dropout=False):
        reached = state.way.numpy()  # a size that the target never came to has the gates of the end
        ways = [None, *np.where(np.isnan(reached), log_alpha, reached)[::-1]]  # from the sparsest back
        for place, (target, way) in enumerate(zip(settings.targets[::-1], ways, strict=True)):
            locked = np.isinf(log_alpha) | (masks[0].vector if masks else False)
            mask = final_mask(log_alpha, units, settings) if way is None else containing(masks[0], way, units, target)
            masks.insert(0, mask)
            if not settings.auto:
                values.insert(0, float(held.kl_of(mask).mean()))
                continue
            if place == len(state.exchanged):
                rng = np.random.default_rng([seed, place, 0xD])
                begun = Exchanged.start(mask, learnt, held, settings.budget, rng)
                state = replace(state, exchanged=(*state.exchanged, begun))
            while not (now := state.exchanged[place]).done and now.round < settings.most_rounds:
                rng = np.random.default_rng([seed, place, now.round, 0xE])
                after = exchange_round(learnt, held, now, locked, settings.budget, rng)
                state = replace(state, exchanged=(*state.exchanged[:place], after))
                progress(settings.work_of(settings.gradient_steps, place, after.round), total)
                tell(state)
            masks[0] = units.from_vector(now.best)
            values.insert(0, float(now.held.mean()))
    ended = tuple(one.done for one in state.exchanged[::-1]) if settings.auto else (False,) * len(masks)
    return Found(tuple(masks), tuple(values), ended, log_alpha, trajectory_of(state, settings))


def descend(
    texts: Texts,
    settings: L0,
    seeds: Sequence[int],
    states: Sequence[State],
    tell: Callable[[Sequence[State]], None] = lambda _states: None,
) -> list[State]:
    """The gradient steps of one search, or of several that share a batch: all begin at the same step."""
    learnt, kept = held_out(len(texts))
    look = texts.take(kept[:LOOK])
    every = max(1, round(LOOK_EVERY / settings.batch), settings.gradient_steps // LOOKS)
    now, begin = list(states), states[0].step
    batches = [islice(batches_of(texts, learnt, settings, seed), begin, settings.gradient_steps) for seed in seeds]
    with frozen(texts.model, settings.dropout):
        for batch in zip(*batches, strict=True):
            now = steps(texts, batch, settings, seeds, now)
            if now[0].step % every == 0 or now[0].step == settings.gradient_steps:
                now = [looked(state, look, settings) for state in now]
            tell(now)
    return now


def batches_of(texts: Texts, learnt: np.ndarray, settings: L0, seed: int) -> Iterator[Batch]:
    """Endless. A search that ends by itself makes few steps: of more texts than it can see, it prefers those that the full
    model is in doubt of. Few texts decide, and many of these are among them."""
    rows, counts = learnt, np.ones(len(learnt))
    if settings.auto:
        rng = np.random.default_rng([seed, 0xF])
        drawn, weight = draw(doubt(texts.full[learnt]), counts / len(counts), settings.gradient_steps * settings.batch, rng)
        rows, counts = learnt[drawn], weight * len(drawn)
    for batch in shuffled(texts.examples.lengths[rows], settings.batch, seed):
        yield rows[batch], counts[batch]


def best_of_starts(search: Callable[[int, int], Found], settings: L0, seed: int) -> Found:
    """Of searches from different starts, the one with the lowest held-out KL; of paths, with the lowest sum of it over their
    sizes, since the masks of one path hold each other and those of two need not. More starts only add to those there are, so
    that this number never rises. `search` is told the number of a start and its seed; the first is the seed itself."""
    seeds = [seed, *(stream(seed, -2 - start) for start in range(1, settings.starts))]
    return min((search(start, own) for start, own in enumerate(seeds)), key=lambda found: sum(found.held))


def looked(state: State, look: Texts, settings: L0) -> State:
    """The KL of the hard mask that the gates would give now, on texts that give no gradients."""
    mask = final_mask(state.values[:-2].numpy(), look.model.units, settings)
    last = {**state.rows[-1], "held": float(look.kl_of(mask).mean())}
    return replace(state, rows=(*state.rows[:-1], last))


def trajectory_of(state: State, settings: L0) -> pd.DataFrame:
    rows = list(state.rows)
    for target, one in zip(settings.targets[::-1], state.exchanged, strict=False):
        for number, row in enumerate(one.rows, 1):
            examples = rows[-1]["examples"] + row["examples"]
            rows.append({"step": rows[-1]["step"] + 1, "round": number, "target": target, **row, "examples": examples})
    kinds = dict.fromkeys(COLUMNS, float) | dict.fromkeys(("step", "round", "examples"), int)
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(kinds)


def step(texts: Texts, indices: np.ndarray, settings: L0, seed: int, state: State) -> State:
    """Forward and back to the gates, on these of the texts."""
    return steps(texts, [(indices, np.ones(len(indices)))], settings, [seed], [state])[0]


def steps(texts: Texts, batches: Sequence[Batch], settings: L0, seeds: Sequence[int], states: Sequence[State]) -> list[State]:
    """One step of each search, on texts of its own; all of them are one batch of the model."""
    generators = [torch.Generator().manual_seed(stream(seed, state.step)) for seed, state in zip(seeds, states, strict=True)]
    if settings.dropout:
        torch.manual_seed(stream(seeds[0], states[0].step))
    split = [zip(*(np.split(values, settings.parts) for values in batch), strict=True) for batch in batches]
    parts = [run_part(texts, part, settings, seeds, states, generators) for part in zip(*split, strict=True)]
    each = zip(states, zip(*parts, strict=True), strict=True)
    return [stepped(settings, state, own) for state, own in each]


def stepped(settings: L0, state: State, parts: Sequence[tuple[Tensor, ...]]) -> State:
    """A search after the parts of its batch were run."""
    now = state.values[:-2]
    gradient, sampled, kl = (torch.stack([part[k] for part in parts]).mean(0) for k in range(3))
    z = torch.cat([part[3] for part in parts])  # (draw, unit)
    if not torch.isfinite(gradient).all():
        raise JobError(f"search: the loss is not a number at step {state.step + 1}; check the model's weights")
    gradient = gradient * min(1.0, settings.clip / (float(gradient.norm()) + 1e-6))
    final = largest(now.numpy(), kept_units(len(now), settings.sparsity))  # of the final size, as the gates are now
    row = {
        "step": state.step + 1,
        "target": target_at(state.step, settings, closed_share(now)),
        "expected": 1 - float(mean_gate(now).mean()),
        "sampled": float(sampled),
        "closed": float(closed_probability(now).mean()),
        "kl": float(kl),
        "live": int(((z > 0) & (z < 1)).any(0).sum()),
        "gap": float(np.abs(1 - closed_probability(now).numpy() - final).mean()),
        "round": 0,
        "examples": settings.batch + (state.rows[-1]["examples"] if state.rows else 0),
        "held": math.nan,
    }
    return replace(adam(state, gradient, settings), rows=(*state.rows, row))


def run_part(
    texts: Texts,
    batches: Sequence[Batch],
    settings: L0,
    seeds: Sequence[int],
    states: Sequence[State],
    generators: Sequence[torch.Generator],
) -> list[tuple[Tensor, ...]]:
    """Of each search (gradient of gates and multipliers, sampled sparsity, mean KL, the gates drawn)"""
    model, units = texts.model, texts.model.units
    values = [state.values.clone().requires_grad_() for state in states]
    rows, counts = zip(*batches, strict=True)
    drawn = []  # ([example,] unit) of each search
    for indices, own, generator in zip(rows, values, generators, strict=True):
        draws = (len(indices), len(units)) if settings.noise == "example" else (len(units),)
        drawn.append(sample_gates(own[:-2], torch.rand(draws, generator=generator) * (1 - 2 * EDGE) + EDGE))
    wide = [z.expand(len(indices), -1) for z, indices in zip(drawn, rows, strict=True)] if len(rows) > 1 else drawn
    gates = Gates.from_vector((torch.cat(wide) if len(rows) > 1 else wide[0]).to(model.device), units.layers, units.heads)
    every = np.concatenate(rows)
    with first_token(model, texts.ablate), gated(model, gates, texts.ablate, texts.means, seeds[0] + states[0].step):
        logits = model(**texts.examples.batch(every, model.device)).logits.float().cpu()
    full = torch.from_numpy(texts.full[every])
    divergence = F.kl_div(F.log_softmax(logits, -1), F.log_softmax(full, -1), log_target=True, reduction="none").sum(-1)
    found = []
    losses: list[Tensor] = []
    apart = torch.split(divergence, [len(r) for r in rows])
    for each, count, z, own, state in zip(apart, counts, drawn, values, states, strict=True):
        kl, sampled = (each * torch.from_numpy(count).to(each)).sum() / len(each), 1 - z.mean()
        loss = kl
        if settings.constraint == "lagrangian":
            sparsity = closed_probability(own[:-2]).mean() if settings.measure == "expected" else sampled
            gap = target_at(state.step, settings, closed_share(state.values[:-2])) - sparsity
            loss = kl + own[-2] * gap + own[-1] * gap**2
        losses.append(loss)
        found.append((sampled.detach(), kl.detach(), z.detach().reshape(-1, len(units))))
    scale = HALF_SCALE if model.precision == "float16" else 1.0
    whole = losses[0] if len(losses) == 1 else torch.stack(losses).sum()
    gradients = torch.autograd.grad(whole * scale, values)
    return [(gradient / scale, *own) for gradient, own in zip(gradients, found, strict=True)]
