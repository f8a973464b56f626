"""Fine-tuning: checkpoints where asked, exact resume, gates on."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from safetensors.torch import load_file

from corewood.data.encode import Encoded, encode
from corewood.data.overlap import overlap
from corewood.errors import InputError, JobError
from corewood.evaluate.predict import logits_of
from corewood.model import finetune, precision
from corewood.model.finetune import as_targets, fine_tune
from corewood.model.gates import gated
from corewood.model.load import Model, load
from corewood.model.mask import Mask
from corewood.model.precision import probe
from corewood.spec import FineTune

TRAIN = overlap(train=400, validation=32, per_case=2).train
assert TRAIN is not None
SETTINGS = FineTune(steps=12, batch=16, learning_rate=1e-3, warmup=2, checkpoints=(0, 4, 8), seed=3)


def prepared(**settings: object) -> tuple[Model, Encoded, np.ndarray]:
    model = tiny.model(**settings)
    assert TRAIN is not None
    return model, encode(TRAIN, model.tokenizer, 64), TRAIN.gold


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def test_checkpoints_are_kept_where_asked_and_the_model_learns(tmp_path: Path) -> None:
    model, train, gold = prepared()
    start = {name: p.clone() for name, p in model.net.state_dict().items()}
    kept = fine_tune(model, train, gold, SETTINGS, tmp_path)
    assert sorted(kept) == [0, 4, 8, 12]
    assert all(weights(kept[0])[name].equal(start[name]) for name in weights(kept[0]))
    assert all(weights(kept[12])[name].equal(value) for name, value in model.net.state_dict().items())
    assert not weights(kept[4])["classifier.weight"].equal(weights(kept[8])["classifier.weight"])
    assert not model.net.training


def test_watching_sees_the_model_that_would_be_kept_and_changes_nothing(tmp_path: Path) -> None:
    model, train, gold = prepared()
    texts = encode(overlap(seed=7, train=40, validation=16, per_case=2).validation, model.tokenizer, 64)
    seen: dict[int, np.ndarray] = {}

    def look(step: int) -> None:
        assert not model.net.training
        seen[step] = logits_of(model, model.units.full(), texts)

    watched = fine_tune(model, train, gold, SETTINGS.model_copy(update={"watch": 4}), tmp_path / "one", look=look)
    model, train, gold = prepared()
    plain = fine_tune(model, train, gold, SETTINGS, tmp_path / "other")
    assert all(weights(watched[12])[name].equal(value) for name, value in weights(plain[12]).items())
    assert list(seen) == [4, 8, 12]
    for step, logits in seen.items():
        model.net.load_state_dict(weights(plain[step]))
        np.testing.assert_allclose(logits_of(model, model.units.full(), texts), logits, atol=1e-6)


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama"])
def test_a_batch_in_parts_is_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str) -> None:
    """Adam does not see the scale of a gradient; its logged norm does."""
    norms: list[float] = []

    def note(self: object, args: object, state: object, control: object, logs: dict[str, float], **_: object) -> None:
        norms.extend([logs["grad_norm"]] if "grad_norm" in logs else [])

    monkeypatch.setattr(finetune.Keeper, "on_log", note)
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0} if family == "bert" else {}
    still |= dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0) if family == "gpt2" else {}
    for parts in (1, 4):
        model = tiny.model(family, **still)
        assert TRAIN is not None
        settings = FineTune(steps=3, batch=16, learning_rate=1e-3, accumulate=parts)
        fine_tune(model, encode(TRAIN, model.tokenizer, 64), TRAIN.gold, settings, tmp_path / str(parts))
    assert norms[3:] == pytest.approx(norms[:3], rel=0.02)


class Killed(Exception):
    pass


@pytest.mark.parametrize("killed_at", [2, 4, 7])
def test_a_killed_run_goes_on_to_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_at: int) -> None:
    monkeypatch.setattr(finetune, "RESUME_EVERY", 0.0)  # a resume point after every step
    model, train, gold = prepared()
    whole = fine_tune(model, train, gold, SETTINGS, tmp_path / "whole")

    def kill(step: int, total: int) -> None:
        if step == killed_at + 1:
            raise Killed

    model, train, gold = prepared()
    with pytest.raises(Killed):
        fine_tune(model, train, gold, SETTINGS, tmp_path / "parts", progress=kill)
    assert (tmp_path / "parts" / f"checkpoint-{killed_at}" / ".sealed").exists()
    half = tmp_path / "parts" / "checkpoint-99"  # what a kill in the middle of saving leaves behind
    half.mkdir()
    model, train, gold = prepared()
    seen: list[int] = []
    parts = fine_tune(model, train, gold, SETTINGS, tmp_path / "parts", progress=lambda step, total: seen.append(step))
    assert seen[0] == killed_at + 1
    for step in whole:
        one, other = weights(whole[step]), weights(parts[step])
        assert all(one[name].equal(other[name]) for name in one), step


def test_training_with_gates_on_leaves_closed_heads_untouched(tmp_path: Path) -> None:
    model, train, gold = prepared()
    heads = np.ones((2, 4), bool)
    heads[0, 1] = False
    mask = Mask(heads, np.ones(2, bool))
    start = model.net.bert.encoder.layer[0].attention.self.value.weight.clone()
    with gated(model, mask, "zero"):
        fine_tune(model, train, gold, SETTINGS, tmp_path)
    now = model.net.bert.encoder.layer[0].attention.self.value.weight
    rows = slice(model.head_width, 2 * model.head_width)
    assert now[rows].equal(start[rows])  # no gradient reaches a closed head
    assert not now[: model.head_width].equal(start[: model.head_width])
    with gated(model, mask, "zero"):
        assert model.net(**train.batch(np.arange(2))).logits.shape == (2, 2)


def test_a_loss_that_is_not_a_number_stops_with_advice(tmp_path: Path) -> None:
    model, train, gold = prepared()
    with torch.no_grad():
        model.net.classifier.weight.fill_(float("nan"))
    with pytest.raises(JobError, match=r"not a number at step 1; lower fine_tune.learning_rate"):
        fine_tune(model, train, gold, SETTINGS, tmp_path)


SCORES = np.array(
    [
        len(set(a.lower().split()) & set(b.lower().split())) / 2
        for a, b in zip(TRAIN.frame["first"], TRAIN.frame["second"], strict=True)
    ]
)


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_the_loss_of_numbers_is_their_squared_error(family: str) -> None:
    model = tiny.model(family, labels=("score",), problem_type="regression")
    assert TRAIN is not None
    train = encode(TRAIN, model.tokenizer, model.max_length)
    targets = as_targets(SCORES, model)
    assert (targets.dtype, targets.shape) == (torch.float32, (400,))
    batch = np.arange(9)
    with torch.inference_mode():
        found = model.net(**train.batch(batch), labels=targets[batch])
    assert found.logits.shape == (9, 1)
    assert float(found.loss) == pytest.approx(float(np.mean((found.logits[:, 0].numpy() - SCORES[batch]) ** 2)), rel=1e-5)


def test_a_model_learns_numbers(tmp_path: Path) -> None:
    tiny.checkpoint(tmp_path / "base")
    model = load(str(tmp_path / "base"), labels=("score",), new_head=True, check=False)
    assert TRAIN is not None
    train = encode(TRAIN, model.tokenizer, 64)

    def error() -> float:
        with torch.inference_mode():
            return float(np.mean((model.net(**train.batch(np.arange(400))).logits[:, 0].numpy() - SCORES) ** 2))

    before = error()
    settings = FineTune.model_validate({"epochs": 8, "batch": 16, "learning_rate": 2e-3, "checkpoints": (4,)})
    kept = fine_tune(model, train, SCORES, settings, tmp_path / "scratch")
    assert sorted(kept) == [4, 200]  # 8 epochs of 400 examples, 16 in a batch
    assert error() < 0.5 * before
    assert error() < np.var(SCORES)  # better than always saying the mean
    again = load(str(kept[200]), tokenizer=str(tmp_path / "base"), check=False)
    assert again.net.config.problem_type == "regression"


def test_numbers_and_classes_are_not_mixed_up(tmp_path: Path) -> None:
    model, train, gold = prepared()
    with pytest.raises(InputError, match=r"need a model with one output, this one has 2; load it with labels="):
        fine_tune(model, train, SCORES, SETTINGS, tmp_path)
    model, train, gold = prepared(labels=("only",))
    with pytest.raises(InputError, match="a class alone leaves nothing to learn"):
        fine_tune(model, train, gold, SETTINGS, tmp_path)


@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2"])
def test_rows_of_words_that_do_not_occur_are_left_out_and_nothing_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    """Against training with all rows of the embeddings."""
    off = {"bert": "hidden_dropout_prob", "roberta": "hidden_dropout_prob", "gpt2": "resid_pdrop"}[family]
    settings = FineTune(steps=6, batch=8, learning_rate=1e-3, checkpoints=(3,), seed=3)
    model = tiny.model(family, **{off: 0.0})
    assert TRAIN is not None
    few = encode(TRAIN, model.tokenizer, 64).take(np.arange(24))
    start = model.net.get_input_embeddings().weight.detach().clone()
    ours = fine_tune(model, few, TRAIN.gold[:24], settings, tmp_path / "ours")
    own = model.net.get_input_embeddings()
    unused = np.setdiff1d(np.arange(len(start)), [*few.ids, few.pad_id])
    assert len(unused) > 10
    assert own.weight[unused].equal(start[unused])
    assert not own.weight[few.ids[1]].equal(start[few.ids[1]])
    assert not own._forward_pre_hooks
    other = tiny.model(family, **{off: 0.0})
    monkeypatch.setattr(finetune, "used_rows", lambda *_: nullcontext())
    theirs = fine_tune(other, few, TRAIN.gold[:24], settings, tmp_path / "theirs")
    for step in (3, 6):
        one, two = weights(ours[step]), weights(theirs[step])
        assert one.keys() == two.keys()
        for name in one:
            torch.testing.assert_close(one[name], two[name], rtol=1e-4, atol=2e-6)


def test_with_weight_decay_every_row_changes(tmp_path: Path) -> None:
    model, train, gold = prepared()
    few = train.take(np.arange(16))
    start = model.net.get_input_embeddings().weight.detach().clone()
    fine_tune(model, few, gold[:16], FineTune(steps=2, batch=8, learning_rate=1e-2, weight_decay=0.5), tmp_path)
    unused = np.setdiff1d(np.arange(1, len(start)), few.ids)
    assert not model.net.get_input_embeddings().weight[unused].equal(start[unused])


def test_training_in_16_bits_is_close_keeps_float32_and_leaves_none_of_it_behind(tmp_path: Path) -> None:
    good, seen = probe("bfloat16")
    if not good:
        pytest.skip(f"bfloat16 {seen}")
    settings = SETTINGS.model_copy(update={"precision": "bfloat16"})
    ends = []
    for name, own in (("plain", SETTINGS), ("half", settings), ("again", settings)):
        model, train, gold = prepared()
        start = model.net.classifier.weight.detach().clone()
        kept = fine_tune(model, train, gold, own, tmp_path / name)
        ends.append(weights(kept[12])["classifier.weight"])
        assert all(value.dtype == torch.float32 for value in weights(kept[12]).values())
        assert model.net(**train.batch(np.arange(4))).logits.dtype == torch.float32  # no autocast outside of training
    plain, half, again = ends
    assert half.equal(again)
    assert 0 < (half - plain).norm() < 0.2 * (plain - start).norm()


def test_training_in_16_bits_that_this_machine_cannot_do_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "probe", lambda _kind: (False, "kills the process here"))
    model, train, gold = prepared()
    with pytest.raises(InputError, match=r"fine_tune\.precision: bfloat16 kills the process here; choose float32"):
        fine_tune(model, train, gold, SETTINGS.model_copy(update={"precision": "bfloat16"}), tmp_path)
