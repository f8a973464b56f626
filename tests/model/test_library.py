"""The library as a notebook uses it: what it gives, what it shows, and what it says of mistakes."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tiny
import torch
import transformers

import corewood as cw
from corewood.data.labels import gold_classes
from corewood.model import finetune
from corewood.model.progress import bar, part
from corewood.spec import Ablation

TASK = cw.task("overlap", train=120, validation=30, per_case=3)


def batch_of(model: cw.Model) -> dict[str, torch.Tensor]:
    return cw.encode(TASK.validation, model.tokenizer, 64).batch(np.arange(12))


# fine-tuning


def test_fine_tuning_is_that_of_studies(tmp_path: Path) -> None:
    folder = tiny.checkpoint(tmp_path / "model")
    tuned = cw.fine_tune(folder, TASK, steps=6, batch=8, learning_rate=1e-3, seed=3)
    assert TASK.train is not None
    plain = cw.load(folder, labels=TASK.labels, new_head=True, seed=3)
    settings = cw.FineTune(steps=6, batch=8, learning_rate=1e-3, seed=3)
    examples = cw.encode(TASK.train, plain.tokenizer, plain.max_length)
    finetune.fine_tune(plain, examples, gold_classes(plain.labels, TASK.train), settings, tmp_path / "scratch")
    for name, value in tuned.net.state_dict().items():
        assert torch.equal(value, plain.net.state_dict()[name]), name
    before = cw.predict(tuned, [], TASK.validation).full
    saved = cw.load(tuned.save(tmp_path / "tuned"))
    np.testing.assert_allclose(cw.predict(saved, [], TASK.validation).full, before, atol=1e-6)
    further = cw.fine_tune(tuned, TASK, epochs=0.2, batch=8)  # in place
    assert further is tuned
    assert not np.allclose(cw.predict(tuned, [], TASK.validation).full, before)


def test_a_regression_gets_one_output(tmp_path: Path) -> None:
    assert TASK.train is not None
    frame = TASK.train.frame.assign(score=TASK.train.frame["first"].str.len() / 10)
    task = cw.task(train=frame, validation=frame, label="score", metric="pearson")
    tuned = cw.fine_tune(tiny.checkpoint(tmp_path / "model"), task, steps=3, batch=8)
    assert tuned.labels == ("score",)
    assert "Predictions of 0" in cw.predict(tuned, [], task.validation)._repr_html_()


# slim


@pytest.mark.parametrize("ablate", ["mean", "zero"])
@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_a_slim_model_is_smaller_and_says_what_the_gated_one_does(family: str, ablate: Ablation) -> None:
    model = tiny.model(family)
    batch = batch_of(model)
    cw.mean_activations(model, TASK.validation)
    before = {name: p.clone() for name, p in model.net.state_dict().items()}
    some = cw.Mask([[1, 0, 0, 1], [0, 1, 0, 0]], [1, 0])
    empty = cw.Mask([[0, 0, 0, 0], [1, 1, 0, 1]], [0, 0])  # a layer without heads, no MLP
    for mask in (some, empty, model.units.full()):
        small = cw.slim(model, mask, ablate)
        with torch.inference_mode(), cw.gated(model, mask, ablate):
            want = model.net(**batch).logits
        with torch.inference_mode():
            torch.testing.assert_close(small(**batch).logits, want, atol=1e-5, rtol=0)
        assert small.num_parameters() == mask.sizes(model.units)["all_parameters"] + new_biases(model, mask, ablate)
        assert type(small) is type(model.net)
        for module in small.modules():
            if isinstance(module, torch.nn.Linear):
                assert (module.out_features, module.in_features) == module.weight.shape
    assert all(torch.equal(value, before[name]) for name, value in model.net.state_dict().items())


def new_biases(model: cw.Model, mask: cw.Mask, ablate: Ablation) -> int:
    """Where projections have no bias, what closed units give needs one: their mean, or the zeros of an empty block."""
    heads = [not kept.all() and (ablate == "mean" or not kept.any()) for kept in mask.heads]
    changed = sum(layer for layer in heads if model.attention_outs[0].bias is None)
    changed += sum(not kept for kept in mask.mlps if model.mlp_outs[0].bias is None)
    norms = 32 if model.name == "qwen3" else 0  # of queries and keys, which an attention without heads does without
    return 32 * changed - norms * sum(not kept.any() for kept in mask.heads)


def test_a_slim_model_can_be_trained_and_moved() -> None:
    model = tiny.model()
    small = cw.slim(model, cw.Mask([[1, 0, 0, 1], [0, 1, 0, 0]], [1, 0]), "zero")
    loss = small(**batch_of(model), labels=torch.zeros(12, dtype=torch.long)).loss
    loss.backward()
    assert all(p.grad is not None for p in small.parameters() if p.numel())
    assert all(p.grad is None for p in model.net.parameters())
    again = cw.slim(model, model.units.full(), "zero")
    again.load_state_dict(model.net.state_dict())


# predictions and the examples behind them


def test_examples_of_predictions_are_those_that_differ() -> None:
    model = tiny.model()
    masks = cw.search(model, TASK, cw.L0(sparsity=0.5, steps=4, batch=8), seeds=2)
    split = TASK.challenge["cases"]
    found = cw.predict(model, masks, split)
    gold = split.gold
    full, one, other = (logits.argmax(-1) for logits in (found.full, found[0], found[masks[1]]))
    assert set(found.wrong(0, "lost").index) == set(np.flatnonzero((full == gold) & (one != gold)))
    assert set(found.wrong(masks[0], "gained").index) == set(np.flatnonzero((full != gold) & (one == gold)))
    assert set(found.wrong(masks[0], other=1).index) == set(np.flatnonzero(one != other))
    assert set(found.wrong(0, "all", "swap")["case"]) == {"swap"}
    row = found.wrong(0, "all").iloc[0]
    batch = model.tokenizer(row["first"], row["second"], return_tensors="pt")
    with torch.inference_mode(), cw.gated(model, masks[0]):
        chances = model(**batch).logits.softmax(-1)[0]
    assert row["answer_p"] == pytest.approx(float(chances.max()), abs=1e-4)
    assert row["answer"] == model.labels[int(chances.argmax())]
    with pytest.raises(cw.InputError, match="these are predictions of 2 masks"):
        found.wrong(2)
    with pytest.raises(cw.InputError, match="these are predictions of 2 masks"):
        found.wrong(model.units.full())


# masks


@pytest.mark.parametrize("suffix", [".safetensors", ".json", ".npy"])
def test_masks_are_read_as_they_were_written(tmp_path: Path, suffix: str) -> None:
    rng = np.random.default_rng(1)
    masks = cw.Masks(cw.Mask(rng.random((3, 4)) < 0.5, rng.random(3) < 0.5) for _ in range(12))
    assert list(cw.Masks.load(masks.save(tmp_path / f"pack{suffix}"))) == list(masks)
    assert list(cw.Masks.load(masks[4].save(tmp_path / f"one{suffix}"))) == [masks[4]]
    assert cw.Mask.load(tmp_path / f"one{suffix}") == masks[4]
    with pytest.raises(cw.InputError, match=r"read by cw\.Masks\.load|not a mask"):
        cw.Mask.load(tmp_path / f"pack{suffix}")
    with pytest.raises(cw.InputError, match="cannot be written"):
        masks.save(tmp_path / "nowhere" / f"pack{suffix}")


def test_masks_make_tables_and_pictures() -> None:
    masks = cw.Masks([cw.Mask([[1, 0], [1, 1]], [1, 0]), cw.Mask([[1, 0], [0, 1]], [1, 0])])
    table = masks.table()
    assert len(table) == 2 * 6
    assert table.groupby("mask")["kept"].sum().tolist() == [4, 3]
    drawn = masks.plot().to_dict()
    (rows,) = drawn["datasets"].values()
    share = {row["name"]: row["kept"] for row in rows}
    assert share == {"L0.H0": 1, "L0.H1": 0, "L1.H0": 0.5, "L1.H1": 1, "L0.MLP": 1, "L1.MLP": 0}
    (rows,) = masks[1].plot().to_dict()["datasets"].values()
    assert {row["name"] for row in rows if row["kept"]} == set(masks[1])
    with pytest.raises(cw.InputError, match="no masks to plot"):
        cw.Masks([]).plot()


# progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_bars_are_for_those_who_look(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, model = Terminal(), tiny.model()
    monkeypatch.setattr(sys, "stderr", terminal)
    masks = cw.search(model, TASK, cw.L0(sparsity=0.5, steps=3, batch=8), seeds=2)
    assert "search: 100%" in terminal.getvalue()
    cw.predict(model, masks, TASK.validation)
    assert "predict validation: 100%" in terminal.getvalue()
    cw.fine_tune(model, TASK, steps=3, batch=8)
    assert "fine-tune: 100%" in terminal.getvalue()
    before = terminal.getvalue()
    transformers.utils.logging.enable_progress_bar()  # as it is where nobody has loaded a model
    cw.predict(model, masks, TASK.validation, "zero", progress=False)
    cw.fine_tune(model, TASK, steps=2, batch=8, progress=False)
    monkeypatch.setattr(terminal, "isatty", lambda: False)
    cw.predict(model, masks, TASK.validation, "zero")
    assert terminal.getvalue() == before


def test_a_notebook_is_somebody_who_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)

    class Shell:
        config = ("IPKernelApp",)

    class IPython:
        get_ipython = staticmethod(Shell)

    monkeypatch.setitem(sys.modules, "IPython", IPython)
    with bar("work") as tell:
        tell(1, 2)
        tell(2, 2)
    assert "work: 100%" in stream.getvalue()


def test_parts_of_the_work_make_the_whole() -> None:
    told: list[tuple[int, int]] = []
    with bar("work", lambda done, total: told.append((done, total))) as tell:
        for place in range(3):
            for done in (1, 2):
                part(tell, place, 3)(done, 2)
    assert told == [(i, 6) for i in range(1, 7)]


# seeds


def test_seeds_are_how_many_or_which() -> None:
    model, way = tiny.model(), cw.L0(sparsity=0.5, steps=3, batch=8)
    three = cw.search(model, TASK, way, seeds=3)
    assert list(three) == list(cw.search(model, TASK, way, seeds=range(3)))
    assert cw.search(model, TASK, way, seeds=[2])[0] == three[2]
    assert cw.unit_tickets(three[0], 1, seed=4) == cw.unit_tickets(three[0], 1, seed=[4])


# what things show


def test_what_is_shown_is_safe_and_says_something() -> None:
    model = tiny.model()
    model.name = "<b>mine</b>"
    masks = cw.search(model, TASK, cw.L0(sparsity=0.5, steps=3, batch=8), seeds=2)
    units = cw.prune_units(model, TASK.validation, cw.Importance(sparsity=0.5))
    weights = cw.prune_weights(model, TASK.validation, cw.Magnitude(sparsity=0.5))
    shown: dict[str, Any] = {
        "&lt;b&gt;mine": model, "labels entailment": TASK, "30 examples": TASK.validation, "2 masks": masks, "heads": masks[0],
        "full model": cw.predict(model, masks, TASK.validation), "Core of 2": cw.core(masks), "Fleiss": cw.stability(masks),
        "tokens": model.means, "open on average": cw.Gates.of(masks[0]), "MLPs": units, "50.0 %": weights,
        "layers": model.units, "sparsity": cw.L0(sparsity=0.5),
        "2 layers x 4 heads: [CLS]": cw.attention_map(model, "The nun saw the cook."),
    }  # fmt: skip
    for words, thing in shown.items():
        html = thing._repr_html_()
        assert words in html or words in repr(thing), (words, html)
        assert "<b>mine" not in html
        assert "object at 0x" not in repr(thing)
        assert len(repr(thing)) < 400 or thing in (units, weights)


# mistakes

MODEL = tiny.model()
cw.mean_activations(MODEL, TASK.validation)
MASK = MODEL.units.full()
OTHER = {"text": ["a", "b"], "label": ["x", "y"]}
WAY = cw.L0(sparsity=0.5, steps=2, batch=8)


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda: cw.predict(MODEL, MASK, TASK), r"not a whole task; pass task\.validation or task\.challenge\['cases'\]"),
        (lambda: cw.predict(MODEL, MASK, TASK.validation.frame), "predict: takes a Split, not a DataFrame"),
        (
            lambda: cw.predict(MODEL.net, MASK, TASK.validation),
            r"wrap yours once, model = cw\.wrap\(net, tokenizer\)",
        ),
        (lambda: cw.predict("bert-base", MASK, TASK.validation), r"not its name; pass cw\.load\('bert-base'\)"),
        (lambda: cw.predict(MODEL, MASK.heads, TASK.validation), r"takes a cw\.Mask\(heads=\(layer, head\).*, not ndarray"),
        (lambda: cw.predict(MODEL, [cw.core([MASK])], TASK.validation), r"takes a mask, not a Core; pass its \.mask"),
        (
            lambda: cw.predict(MODEL, cw.Mask(np.ones((3, 4)), np.ones(3)), TASK.validation),
            "3 layers x 4 heads; the model has 2 x 4",
        ),
        (lambda: cw.predict(MODEL, ~MASK, TASK.validation, "men"), "ablate='men': choose mean, zero or resample"),
        (lambda: cw.search(MODEL, TASK.validation, WAY), "search: takes a task, not one of its splits"),
        (lambda: cw.search(MODEL, TASK, 0.5), r"search: takes settings, cw\.L0\(sparsity=0\.5\), not a float"),
        (lambda: cw.search(MODEL, TASK, WAY, seeds=0), "seeds=0: say how many, seeds=3, or which"),
        (lambda: cw.search(MODEL, TASK, WAY, seeds=1.5), "seeds=1.5: say how many, seeds=3, or which"),
        (lambda: cw.search(MODEL, TASK, WAY, seeds=[1, 1]), r"seeds=\[1, 1\]: .* each once"),
        (lambda: cw.search(MODEL, TASK, cw.L0(sparsity=0.001, steps=2)), r"removes none; the smallest possible is 0\.1000"),
        (lambda: cw.fine_tune(MODEL, TASK), "fine_tune: give exactly one of 'steps' and 'epochs'"),
        (lambda: cw.fine_tune(MODEL, TASK, step=5), "fine_tune: step: unknown key. Did you mean 'steps'"),
        (lambda: cw.fine_tune(MODEL, TASK, steps=5, checkpoints=[1]), "checkpoints is a setting of studies"),
        (lambda: cw.fine_tune(MODEL, TASK.train, steps=5), "fine_tune: takes a task, not one of its splits"),
        (lambda: cw.fine_tune(MODEL, cw.task(validation=TASK.validation), steps=5), r"no examples to learn from; .*train="),
        (
            lambda: cw.fine_tune(MODEL, cw.task(train=OTHER, validation=OTHER), steps=5),
            "the model's classes are entailment, non-entailment, the task's x, y; pass the name of its checkpoint",
        ),
        (lambda: cw.load("./no/such/folder"), r"\./no/such/folder: there is no such folder"),
        (lambda: cw.load("no-such-model"), "no such folder, and it could not be had from the hub"),
        (lambda: cw.wrap(MODEL.net.base_model, MODEL.tokenizer), "takes a Hugging Face classifier, not BertModel"),
        (lambda: cw.slim(MODEL, MASK, "resample"), "which no model can hold; choose mean or zero"),
        (lambda: cw.slim(tiny.model(), ~MASK), r"pass means=cw\.mean_activations\(model, split\), or ablate='zero'"),
        (lambda: cw.slim(MODEL, ~MASK, "zeros"), "slim: ablate='zeros': choose mean or zero"),
        (lambda: cw.export(MODEL, ~MASK, "nowhere", "zeros"), "export: ablate='zeros': choose mean or zero"),
        (lambda: cw.slim(tiny.model(), ~MASK), r"or ablate='zero'$"),
        (lambda: cw.Mask([[1, 0], [1]], [1, 1]), "give every layer as many heads"),
        (lambda: MASK & MASK.heads, r"&, \| and -: takes a cw\.Mask\(.*, not ndarray"),
        (lambda: MASK - "x", r"&, \| and -: takes a cw\.Mask\(.*, not str"),
        (lambda: cw.Masks([]).save("e.json"), r"e\.json: there is no mask to save"),
        (lambda: cw.search(MODEL, TASK, WAY, sample=1.5), "a sample of 1.5 examples: take 1 or more, a whole number"),
        (lambda: cw.search(MODEL, TASK, WAY, sample="x"), "a sample of 'x' examples: take 1 or more, a whole number"),
        (lambda: cw.prune_units(MODEL, TASK.validation, WAY), r"takes settings, cw\.Importance\(sparsity=0\.5\), not a"),
        (lambda: cw.prune_weights(MODEL, TASK.validation, WAY), r"takes settings, cw\.Magnitude\(sparsity=0\.5\), not a"),
        (lambda: cw.attention_map(MODEL, 3), "attention_map: takes a text, or two, not an int"),
        (
            lambda: cw.prune_units(tiny.model(labels=("LABEL_0", "LABEL_1")), TASK.validation),
            r"of a net in memory, net\.config\.id2label = \{0: 'entailment', 1: 'non-entailment'\}",
        ),
        (lambda: cw.slim(MODEL, cw.Masks([MASK, MASK])), "slim: takes one mask, not 2 of them"),
        (lambda: cw.gated(MODEL.net, MASK).__enter__(), "gated: .* wrap yours once"),
        (lambda: cw.gated(MODEL, [[1, 0]]).__enter__(), r"gated: takes a cw\.Mask"),
        (lambda: cw.weights_masked(MODEL, MASK).__enter__(), r"takes a mask of weights, not Mask; cw\.gated closes heads"),
        (lambda: MODEL.units.without("L0.H9"), r"no unit 'L0\.H9'\. Did you mean .* L0\.H0 to L1\.H3"),
        (lambda: MODEL.units.from_vector(np.ones(9)), "for 10 units|10 units: 8 heads"),
        (lambda: cw.Masks([MASK, "x"]), r"Masks: takes a cw\.Mask"),
        (lambda: cw.core(MASK.heads), r"core: takes a cw\.Mask"),
        (lambda: cw.agreement([MASK]), "at least two masks"),
        (lambda: cw.overlaps([MASK]), "overlaps: takes the masks of each task by its name"),
        (lambda: cw.mean_activations(MODEL, TASK), "mean_activations: .* not a whole task"),
        (lambda: cw.prune_units(MODEL, TASK), "prune_units: .* not a whole task"),
        (lambda: cw.prune_units(MODEL, TASK.validation, cw.Importance(prune="heads")), "prune is an argument of its own"),
        (lambda: cw.prune_units(MODEL, TASK.validation, cw.Importance(like="l0")), "like is a setting of studies"),
        (lambda: cw.prune_weights(MODEL, TASK.validation, cw.Magnitude(like="l0")), "like is a setting of studies"),
        (lambda: cw.encode(TASK, MODEL.tokenizer, 64), "encode: .* not a whole task"),
        (lambda: cw.score("acc", np.zeros((1, 2)), np.zeros(1)), "the metrics are accuracy"),
        (lambda: cw.run({"name": "x"}), "run: takes the path of a study file, or a cw.StudySpec"),
        (lambda: cw.run("no-such-study.yaml"), "there is no such study file"),
        (lambda: cw.L0(sparcity=0.5), "^L0: sparcity: unknown key. Did you mean 'sparsity'[?]$"),
        (lambda: cw.L0(0.5), r"^L0: settings are given by name, for instance L0\(sparsity=0\.5\)$"),
        (lambda: cw.L0(sparsity=1.5), "^L0: sparsity: .* must lie between 0 and 1"),
        (lambda: cw.FineTune(steps="many"), "^FineTune: steps: .*given: 'many'"),
        (
            lambda: cw.StudySpec(name="x", model="y", task={"generated": "overlap"}, prun={}),
            "prun: unknown key. Did you mean 'prune'",
        ),
    ],
)
def test_mistakes_are_told_in_a_sentence(mistake: Callable[[], object], message: str) -> None:
    with pytest.raises(cw.InputError, match=message) as told:
        mistake()
    assert "pydantic" not in str(told.value)
    assert "\n" not in str(told.value)


def test_a_tokenizer_without_padding_is_refused() -> None:
    words = tiny.tokenizer()
    words.pad_token = None
    with pytest.raises(cw.InputError, match="wrap: the tokenizer has no padding token"):
        cw.wrap(MODEL.net, words)


def test_a_frame_of_examples_is_a_frame() -> None:
    assert isinstance(cw.predict(MODEL, MASK, TASK.validation).wrong(), pd.DataFrame)
