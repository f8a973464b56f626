"""16 bits by autocast, and searches that share a batch: on a CPU, the one device at hand."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
import small
import tiny
import torch

import corewood as cw
from corewood.data.encode import encode
from corewood.data.overlap import overlap
from corewood.errors import InputError
from corewood.evaluate.predict import logits_of
from corewood.model import precision
from corewood.model.load import Model
from corewood.model.reference import reference
from corewood.prune.exchange import Texts
from corewood.prune.l0 import State, descend, l0_search
from corewood.spec import L0, ModelSpec
from corewood.study.cost import estimate
from corewood.study.models import precision_of
from corewood.study.plan import make_plan

TASK = overlap(seed=1, train=160, validation=40, per_case=3)
SETTINGS = L0(sparsity=0.4, steps=12, batch=8)


@pytest.fixture(scope="module")
def model() -> Model:
    return tiny.model()


@pytest.fixture(scope="module")
def safe() -> str:
    good, seen = precision.probe("bfloat16")
    if not good:
        pytest.skip(f"bfloat16 {seen}")
    return "bfloat16"


def test_autocast_is_close_to_float32_and_not_the_same(model: Model, safe: str) -> None:
    examples = encode(TASK.validation, model.tokenizer, model.max_length)
    mask = model.units.without("L0.H1", "L1.MLP")
    plain, shared = logits_of(model, mask, examples, "zero"), reference(model, examples)
    try:
        model.precision = safe
        half, means = logits_of(model, mask, examples, "zero"), reference(model, examples).means
    finally:
        model.precision = "float32"
    assert half.dtype == np.float32
    assert 0 < np.abs(half - plain).max() < 0.1 * np.abs(plain).max()
    assert torch.allclose(means.heads, shared.means.heads, atol=0.05 * float(shared.means.heads.abs().max()))
    assert np.array_equal(logits_of(model, mask, examples, "zero"), plain)


def test_attention_goes_back_step_by_step_where_the_fused_one_crawls(
    model: Model, safe: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same slopes but for rounding; what is not to go back, or is long, keeps the fused kernel."""
    examples = encode(TASK.validation, model.tokenizer, model.max_length)
    batch = examples.batch(np.arange(8))

    def slopes(name: str) -> tuple[torch.Tensor, set[str]]:
        weight = model.net.get_input_embeddings().weight
        with torch.profiler.profile() as seen:
            monkeypatch.setattr(model, "precision", name)
            model(**batch).logits.square().sum().backward()
        slope, weight.grad = weight.grad.clone(), None
        model.net.zero_grad()
        return slope, {event.name for event in seen.events() if event.name.startswith("aten::_scaled_dot_product")}

    plain, fused = slopes("float32")
    half, steps = slopes(safe)
    assert fused == {"aten::_scaled_dot_product_flash_attention_for_cpu"} | {name for name in fused if "backward" in name}
    assert steps == {"aten::_scaled_dot_product_attention_math"}
    assert 0 < (half - plain).abs().max() < 0.1 * plain.abs().max()
    monkeypatch.setattr(precision, "SHORT", 1)
    assert slopes(safe)[1] == fused
    with torch.profiler.profile() as seen, torch.inference_mode():
        model(**batch)
    assert "aten::_scaled_dot_product_attention_math" not in {event.name for event in seen.events()}


def test_what_was_searched_in_16_bits_is_shipped_in_32(model: Model, safe: str, tmp_path: Path) -> None:
    mask = model.units.without("L0.H1", "L1.MLP")
    try:
        model.precision = safe
        shipped = cw.export(model, mask, tmp_path / "out", "zero", task=TASK, measure=False, progress=False)
    finally:
        model.precision = "float32"
    assert shipped.apart < 1e-4
    examples = encode(TASK.validation, model.tokenizer, model.max_length)
    right = logits_of(model, mask, examples, "zero").argmax(1) == TASK.validation.gold
    assert shipped.cases.set_index("dataset").loc["validation", "file"] == pytest.approx(right.mean())
    assert f"{safe}; judged here in float32" in (tmp_path / "out" / "README.md").read_text()


def test_an_estimate_runs_in_the_precision_of_the_study(safe: str, tmp_path: Path) -> None:
    """float32 trains, whatever judges."""

    def seen(name: str) -> dict[str, set[torch.dtype]]:
        study = small.write_study(tmp_path / name, model={"checkpoint": "model", "precision": name})
        plan = make_plan(small.spec_of(study), study.parent)
        kinds: dict[str, set[torch.dtype]] = {"train": set(), "judge": set()}

        def look(layer: torch.nn.Module, _: object, out: object) -> None:
            if isinstance(layer, torch.nn.Linear) and isinstance(out, torch.Tensor):
                kinds["train" if layer.training else "judge"].add(out.dtype)

        hook = torch.nn.modules.module.register_module_forward_hook(look)
        try:
            estimate(plan, list(plan.jobs.values()), 1)
        finally:
            hook.remove()
        return kinds

    assert seen(safe) == {"train": {torch.float32}, "judge": {torch.bfloat16}}
    assert seen("float32") == {"train": {torch.float32}, "judge": {torch.float32}}


def test_a_search_in_16_bits_finds_a_mask(model: Model, safe: str) -> None:
    try:
        model.precision = safe
        (mask,) = cw.search(model, TASK, L0(sparsity=0.4, steps=4, batch=8), seeds=1, sample=64, progress=False)
    finally:
        model.precision = "float32"
    assert len(mask) == 6


def test_what_dies_in_the_child_is_refused_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tiny.checkpoint(tmp_path / "model")
    died = subprocess.CompletedProcess([], -4, "", "")
    precision.probe.cache_clear()
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: died)
    with pytest.raises(InputError, match=r"bfloat16 kills the process here \(SIGILL\).*choose float32"):
        cw.load(folder, precision="bfloat16")
    precision.probe.cache_clear()
    with pytest.raises(InputError, match="choose float32, bfloat16, float16"):
        cw.load(folder, precision="int8")


@pytest.mark.parametrize(
    ("asked", "device", "gpu", "found"),
    [
        ("auto", "auto", True, "bfloat16"),
        ("auto", "auto", False, "float32"),
        ("auto", "cpu", True, "float32"),
        ("float16", "auto", True, "float16"),
        ("float32", "auto", True, "float32"),
    ],
)
def test_auto_is_bfloat16_on_gpus_that_have_it(asked: str, device: str, gpu: bool, found: str) -> None:
    assert precision_of(ModelSpec(checkpoint="m", precision=asked, device=device), gpu) == found


@pytest.mark.parametrize(
    "change", [{}, {"noise": "batch"}, {"constraint": "lagrangian", "measure": "sampled"}, {"parts": 2}, {"path": (0.2,)}]
)
def test_searches_that_share_a_batch_are_those_of_one_each(model: Model, change: dict[str, object]) -> None:
    settings = SETTINGS.model_copy(update=change)
    examples = encode(TASK.train, model.tokenizer, model.max_length)  # type: ignore[arg-type]
    shared = reference(model, examples)
    texts = Texts.of(model, examples, shared)
    seeds = [3, 1, 4]
    begun = [State.start(len(model.units), settings, seed) for seed in seeds]
    together = descend(texts, settings, seeds, begun)
    for seed, start, state in zip(seeds, begun, together, strict=True):
        (alone,) = descend(texts, settings, [seed], [start])
        assert state.step == settings.gradient_steps
        assert torch.allclose(state.values, alone.values, atol=2e-3)
        found = l0_search(Texts.of(model, examples, shared), settings, seed, state=state)
        assert len(found.mask) == 6
    assert not torch.allclose(together[0].values, together[1].values, atol=2e-3)


def test_pack_gives_the_same_masks_and_says_where_it_cannot(model: Model) -> None:
    alone = cw.search(model, TASK, SETTINGS, seeds=3, sample=100, progress=False)
    packed = cw.search(model, TASK, SETTINGS, seeds=3, sample=100, progress=False, pack=2)
    assert list(packed) == list(alone)
    with pytest.raises(InputError, match="pack=2: with dropout"):
        cw.search(model, TASK, SETTINGS.model_copy(update={"dropout": True}), seeds=2, progress=False, pack=2)
    with pytest.raises(InputError, match="pack=0"):
        cw.search(model, TASK, SETTINGS, seeds=2, progress=False, pack=0)
