"""Exported files answer as gates do, for every family, and hold nothing of the machine."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tiny
import torch
import transformers
import yaml

import corewood as cw
from corewood.data.overlap import overlap
from corewood.errors import CorewoodError, InputError
from corewood.model.gates import Means, gated
from corewood.model.mask import Mask
from corewood.model.slim import slim
from corewood.model.zeroed import zeroed
from corewood.ship import export as exporting
from corewood.ship import onnx_file
from corewood.ship.judge import Judged, cases_table, check_same, finding, moved
from corewood.ship.onnx_file import DYNAMO, TORCHSCRIPT, File, write_onnx
from corewood.ship.origin import base_of, licence_of
from corewood.spec import Ablation

TASK = overlap(seed=3, train=40, validation=40, per_case=4)
SHAPES = ((1, 1), (1, 17), (2, 5), (3, 30), (4, 11))
# an empty layer, uneven groups of heads, a closed MLP
HARD = Mask([[0, 0, 0, 0], [0, 1, 1, 1]], [1, 0])
RELATIVE = dict(relative_attention=True, position_buckets=8, norm_rel_ebd="layer_norm", pos_att_type=["p2c", "c2p"])
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in tiny.FAMILIES},
    "deberta-v3": ("deberta-v2", {**RELATIVE, "share_att_key": True}),
    "modernbert-window": ("modernbert", {"local_attention": 8, "global_attn_every_n_layers": 2}),
}


def means_of(model: cw.Model) -> Means:
    """Any values will do: what counts is that file and gates give the same."""
    rng = torch.Generator().manual_seed(1)
    width = model.head_width
    return Means(torch.randn(2, 4, width, generator=rng), torch.randn(2, 32, generator=rng), 1)


def batches(names: tuple[str, ...], sides: tuple[bool, ...] = (False, True)) -> list[dict[str, torch.Tensor]]:
    """Five shapes; every second row is padded, on the right and on the left."""
    made = []
    for place, (rows, tokens) in enumerate(SHAPES):
        for left in sides:
            ids = torch.randint(5, 170, (rows, tokens), generator=torch.Generator().manual_seed(place))
            real = torch.ones_like(ids)
            real[1::2, tokens // 2 :] = 0
            real = real.flip(1) if left else real
            batch = {"input_ids": ids * real, "attention_mask": real, "token_type_ids": torch.zeros_like(ids)}
            made.append({name: batch[name] for name in names})
    return made


def inputs_of(model: cw.Model) -> tuple[str, ...]:
    return tuple(n for n in ("input_ids", "attention_mask", "token_type_ids") if n in model.tokenizer.model_input_names)


def gap(model: cw.Model, mask: Mask, ablate: Ablation, means: Means, other: Any) -> float:
    """The largest difference of a logit, for logits of some size."""
    worst = 0.0
    # ModernBERT pools the first token: left padding makes that a pad, of which transformers' own sdpa and eager say different
    # things once its window holds no other token
    sides = (False,) if model.net.config.model_type == "modernbert" else (False, True)
    for batch in batches(inputs_of(model), sides):
        with torch.inference_mode(), gated(model, mask, ablate, means):
            want = model.net(**batch).logits.numpy()
        worst = max(worst, float(np.abs(other(batch) - want).max() / max(1.0, float(np.abs(want).max()))))
    return worst


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_file_of_any_family_answers_as_gates_do(variant: str, tmp_path: Path) -> None:
    family, settings = VARIANTS[variant]
    model = tiny.model(family, **settings)
    means, path = means_of(model), tmp_path / "model.onnx"
    assert write_onnx(slim(model, HARD, "mean", means), inputs_of(model), 64, path) == TORCHSCRIPT
    file = File(path)
    assert gap(model, HARD, "mean", means, file) < 5e-6
    assert set(file.inputs) <= set(inputs_of(model))


NO_BIAS = {"mistral": "attention", "qwen2": "attention", "qwen3": "MLP"}


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_the_original_architecture_holds_a_subnetwork_where_it_has_biases(family: str, tmp_path: Path) -> None:
    model = tiny.model(family)
    means = means_of(model)
    zeroed(model, HARD, "zero").save_pretrained(tmp_path / "zero")
    ways: dict[Ablation, Path] = {"zero": tmp_path / "zero"}
    if family in NO_BIAS:
        with pytest.raises(InputError, match=rf"{NO_BIAS[family]}'s .* of model type '{family}' has no bias .* ablate: zero"):
            zeroed(model, HARD, "mean", means)
    else:
        zeroed(model, HARD, "mean", means).save_pretrained(tmp_path / "mean")
        ways["mean"] = tmp_path / "mean"
    for ablate, folder in ways.items():
        again = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
        with torch.inference_mode():
            assert gap(model, HARD, ablate, means, lambda batch, net=again: net(**batch).logits.numpy()) < 5e-6


@pytest.fixture(scope="module")
def model() -> cw.Model:
    made = tiny.model()
    cw.mean_activations(made, TASK.validation)
    return made


@pytest.fixture(scope="module")
def shipped(model: cw.Model, tmp_path_factory: pytest.TempPathFactory) -> exporting.Shipped:
    """With everything but the torch program."""
    folder = tmp_path_factory.mktemp("shipped") / "one"
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr("corewood.ship.measure.ROUNDS", 2)
    monkeypatch.setattr("corewood.ship.measure.cores", lambda: 1)
    made = cw.export(model, HARD, folder, task=TASK, int8=True, dropin=True)
    monkeypatch.undo()
    return made


def test_a_folder_has_what_it_needs_and_nothing_of_the_machine(shipped: exporting.Shipped) -> None:
    files = {p.relative_to(shipped.folder).as_posix(): p for p in shipped.folder.rglob("*") if p.is_file()}
    beside = {"config.json", "tokenizer.json", "tokenizer_config.json"}
    models = {"onnx/model.onnx", "onnx/model_quantized.onnx", "dropin/model.safetensors"}
    assert set(files) == {*beside, *models, "README.md", "corewood.json", *(f"dropin/{name}" for name in beside)}
    for path in files.values():
        assert stat.S_IMODE(path.stat().st_mode) == 0o644
        content = path.read_bytes()
        for place in (str(shipped.folder.parent), str(Path(cw.__file__).parents[2]), sys.prefix, "site-packages"):
            assert place.encode() not in content, f"{path.name} names {place}"
    record = json.loads(files["corewood.json"].read_text())
    assert set(record["files"]) == set(files) - {"corewood.json"}
    assert record["mask"]["mlps"] == [1, 0]
    config = json.loads(files["config.json"].read_text())
    assert (config["model_type"], config["id2label"]["0"]) == ("bert", "entailment")
    told = json.loads(files["tokenizer_config.json"].read_text())
    assert (told["model_max_length"], told["padding_side"]) == (64, "right")
    sums = {name: facts["sha256"] for name, facts in record["files"].items()}
    card = files["README.md"].read_text()
    assert all(f"`{sums[name]}`" in card for name in models)


def test_the_card_says_what_the_file_does(shipped: exporting.Shipped, model: cw.Model) -> None:
    card = (shipped.folder / "README.md").read_text()
    front = yaml.safe_load(card.split("---")[1])
    assert front["pipeline_tag"] == "text-classification"
    assert front["license"] == "unknown"
    assert "| 0 | 0, 1, 2, 3 | none | kept |" in card
    assert "| 1 | 0 | 1, 2, 3 | removed |" in card
    assert "its mean over the texts" in card
    assert "Texts are cut at 64 tokens and padded on the right" in card
    want = cw.predict(model, HARD, TASK.challenge["cases"], progress=False).accuracy()
    for who, number in (("full", -1), ("subnetwork", 0), ("file", 0)):
        cases = shipped.cases[shipped.cases["dataset"] == "cases"].set_index("case")[who]
        own = want[want["subnetwork"] == number].set_index("case")["value"]
        assert cases.to_dict() == own.to_dict()
    for case in TASK.challenge["cases"].frame["case"].unique():
        assert f"| cases | {case} | 4 |" in card
    assert shipped.parameters[1] == slim(model, HARD).num_parameters()
    assert "times as fast" in card
    assert [(one.batch, one.threads) for one in shipped.timings] == [(1, 1), (32, 1)]
    assert all(one.flops > 1.2 for one in shipped.timings)


def test_the_snippet_of_the_card_runs_without_corewood(shipped: exporting.Shipped, model: cw.Model) -> None:
    snippet = (shipped.folder / "README.md").read_text().split("```python\n")[1].split("```")[0]
    row = TASK.validation.frame.iloc[0]
    snippet = snippet.replace('"first text"', repr(row["first"])).replace('"second text"', repr(row["second"]))
    blocked = "import sys\nsys.modules['corewood'] = None\n"
    code = f"{blocked}{snippet}\ntry:\n    import corewood\nexcept ImportError:\n    print('alone')"
    done = subprocess.run([sys.executable, "-c", code], cwd=shipped.folder, capture_output=True, text=True, check=True)
    first = cw.predict(model, HARD, TASK.validation, progress=False)[0][0]
    assert done.stdout.split("\n")[:2] == [str([model.labels[first.argmax()]]), "alone"]


def test_the_same_bytes_come_twice(model: cw.Model, shipped: exporting.Shipped, tmp_path: Path) -> None:
    again = [cw.export(model, HARD, tmp_path / name, task=TASK, int8=True, dropin=True, measure=False) for name in "ab"]
    for name in again[0].files:
        files = [(one.folder / name).read_bytes() for one in (*again, shipped)]
        assert files[0] == files[1] == files[2], name
    assert (tmp_path / "a" / "README.md").read_bytes() == (tmp_path / "b" / "README.md").read_bytes()
    assert (tmp_path / "a" / "corewood.json").read_bytes() == (tmp_path / "b" / "corewood.json").read_bytes()


def test_a_torch_program_and_random_tokens(model: cw.Model, tmp_path: Path) -> None:
    made = cw.export(model, HARD, tmp_path / "one", formats=["onnx", "pt2"])
    assert made.cases.empty
    assert made.apart < 5e-6
    assert b"site-packages" not in (tmp_path / "one" / "model.pt2").read_bytes()
    program = torch.export.load(tmp_path / "one" / "model.pt2").module()
    assert model.means is not None
    with torch.inference_mode():
        assert gap(model, HARD, "mean", model.means, lambda batch: program(*batch.values()).numpy()) < 5e-6


def test_the_other_exporter_does_it_where_the_first_cannot(
    model: cw.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> Any:
        raise RuntimeError("cannot trace this")

    monkeypatch.setitem(onnx_file.EXPORTERS, TORCHSCRIPT, fails)
    path = tmp_path / "model.onnx"
    assert model.means is not None
    assert write_onnx(slim(model, HARD), inputs_of(model), 64, path) == DYNAMO
    assert gap(model, HARD, "mean", model.means, File(path)) < 5e-6
    assert b"site-packages" not in path.read_bytes()
    onnx_file.write_int8(path, tmp_path / "small.onnx")
    assert File(tmp_path / "small.onnx")(batches(inputs_of(model))[0]).shape == (1, 2)
    monkeypatch.setitem(onnx_file.EXPORTERS, DYNAMO, fails)
    with pytest.raises(InputError, match=r"'bert' cannot be written as ONNX .torchscript: cannot trace this; dynamo: cannot"):
        write_onnx(slim(model, HARD), inputs_of(model), 64, path)


def test_a_file_that_is_too_large_for_one_stands_in_two(
    model: cw.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_file, "WHOLE", 1000)
    made = cw.export(model, HARD, tmp_path / "one", "zero")
    assert "onnx/model.onnx_data" in made.files
    assert onnx.load(tmp_path / "one" / "onnx" / "model.onnx", load_external_data=False).ByteSize() < 60_000


def test_a_mask_of_weights_is_a_checkpoint_with_zeros(model: cw.Model, tmp_path: Path) -> None:
    mask = cw.prune_weights(model, TASK.validation, cw.Magnitude(sparsity=0.5)).mask
    made = cw.export(model, mask, tmp_path / "one", task=TASK)
    assert made.timings == []
    dense = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "one" / "dropin")
    for name, weight in dense.named_parameters():
        if name in mask.bits:
            assert (weight.detach().numpy()[~mask.kept(name)] == 0).all()
    card = (tmp_path / "one" / "README.md").read_text()
    assert "50.0 % of its layers' weights are zero" in card
    assert "no speed is claimed" in card
    assert "faster" not in card.replace("not faster", "")


def test_a_file_that_answers_otherwise_is_not_shipped(model: cw.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = exporting.write_onnx

    def wrong(net: Any, *rest: Any) -> str:
        with torch.no_grad():
            net.classifier.bias.add_(torch.tensor([3.0, -3.0]))
        return own(net, *rest)

    monkeypatch.setattr(exporting, "write_onnx", wrong)
    with pytest.raises(CorewoodError, match=r"onnx/model\.onnx answers \d+ of 40 examples of validation otherwise"):
        cw.export(model, HARD, tmp_path / "one", task=TASK)
    with pytest.raises(CorewoodError, match="from the subnetwork's; nothing was written"):
        cw.export(model, HARD, tmp_path / "one")
    assert list(tmp_path.iterdir()) == []


def test_what_int8_moves_is_said_loudly() -> None:
    """Made up: one case falls from 50 to 34 of 100, one from 40 to 30, the third and validation stand still."""
    split = cw.task(
        validation={"text": [f"v{i}" for i in range(100)], "label": ["a", "b"] * 50},
        challenge={
            "hard": {
                "text": [f"c{i}" for i in range(300)],
                "label": ["a"] * 300,
                "case": [c for c in "xyz" for _ in range(100)],
            }
        },
        case="case",
    )
    gold = [split.validation.gold, split.challenge["hard"].gold]
    right = [np.eye(2)[g] for g in gold]
    before = [right[0].copy(), right[1].copy()]
    before[1][150:200] = before[1][150:200, ::-1]  # y: half of it is right
    before[1][240:300] = before[1][240:300, ::-1]  # z: less than half
    after = [right[0].copy(), before[1].copy()]
    after[1][100:116] = after[1][100:116, ::-1]
    after[1][200:210] = after[1][200:210, ::-1]
    sets = [
        Judged("validation", "in-domain", split.validation, None, before[0], before[0]),  # type: ignore[arg-type]
        Judged("hard", "challenge", split.challenge["hard"], None, before[1], before[1]),  # type: ignore[arg-type]
    ]
    table = moved(sets, ("a", "b"), before, after).set_index("case")
    assert table["verdict"].to_dict() == {"all": "kept", "x": "kept", "y": "lost"}  # of z, less than half was there to lose

    def said(now: list[np.ndarray], new: list[np.ndarray]) -> str:
        return finding(cases_table(sets, ("a", "b"), {"file": now, "int8": new}), moved(sets, ("a", "b"), now, new))

    stands = "validation stands still (100.0 to 100.0 %)."
    assert said(before, after) == f"int8 loses “y” 50.0 to 34.0 % and lowers “z” 40.0 to 30.0 %, while {stands}"
    few = [before[0], before[1].copy()]
    few[1][0:5] = few[1][0:5, ::-1]  # five of a hundred, which may be chance
    assert said(before, few) == f"int8 lowers “x” 100.0 to 95.0 %, while {stands}"
    assert said(after, before) == f"int8 raises “z” 30.0 to 40.0 %, “y” 34.0 to 50.0 %, while {stands}"
    assert said(before, before) == f"int8 moves no case by five points; at worst “x” 100.0 to 100.0 %; {stands}"
    with pytest.raises(CorewoodError, match="answers 26 of 300 examples of hard otherwise"):
        check_same(sets[1], after[1], ("a", "b"), "file")


def test_what_cannot_be_exported_is_told(model: cw.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "file").write_text("x")
    out = tmp_path / "new"
    wrong: list[tuple[Any, str]] = [
        (lambda: cw.export(model, HARD, tmp_path / "there"), "there: exists already; choose another folder"),
        (lambda: cw.export(model, HARD, tmp_path / "file" / "x"), "file: Not a directory.*choose another folder"),
        (lambda: cw.export(model, HARD, out, "resample"), "which no file can hold; choose mean or zero"),
        (lambda: cw.export(model, HARD, out, formats=["onxx"]), r"no format 'onxx'\. Did you mean 'onnx'"),
        (lambda: cw.export(model, HARD, out, formats="onnx"), "give a list"),
        (lambda: cw.export(model, HARD, out, formats=["pt2"]), "always written; give onnx,pt2"),
        (lambda: cw.export(model.net, HARD, out), "wrap yours once"),
        (lambda: cw.export(model, cw.Mask(np.ones((3, 4)), np.ones(3)), out), "the model has 2 x 4"),
        (lambda: cw.export(tiny.model("mistral"), HARD, out, "mean", means_of(tiny.model("mistral")), dropin=True), "no bias"),
    ]
    for call, message in wrong:
        with pytest.raises(InputError, match=message):
            call()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(exporting, "write_card", full)
    with pytest.raises(InputError, match=r"new: the disk is full; free some space.*Nothing was written"):
        cw.export(model, HARD, out)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"onnx and onnxruntime not installed; run: pip install 'corewood\[export\]'"):
        cw.export(model, HARD, out)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "there"]


def test_the_licence_of_a_checkpoint_is_that_of_its_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    assert base_of(str(folder), str(folder)) == {"base": "mine", "hub": False, "licence": ""}
    (folder / "README.md").write_text("---\nlicense: mit\n---\n# Mine\n")
    assert base_of(str(folder), str(folder))["licence"] == "mit"
    (folder / "README.md").write_text("---\nlicense:\n---\n# Mine\n")
    assert base_of(str(folder), str(folder))["licence"] == ""
    (folder / "README.md").write_text("# Mine\n\n---\nlicense: mit\n---\n")
    assert base_of(str(folder), str(folder))["licence"] == ""
    assert base_of("owner/name", "owner/name") == {"base": "owner/name", "hub": True, "licence": ""}
    (folder / "README.md").write_text("---\nlicense: mit\n---\n# Mine\n")
    monkeypatch.chdir(folder)  # whose licence is not that of a model from nowhere
    for gone in (str(tmp_path / "gone"), "./models/x", "a/b/c", ""):
        assert licence_of(gone) == ""


def test_all_sets_of_a_task_are_judged_and_a_private_folder_stays_private(model: cw.Model, tmp_path: Path) -> None:
    odd = TASK.validation.frame.head(8).assign(case=["two\nlines", "a|b"] * 4)
    hard = cw.Split("hard", odd, TASK.validation.labels)
    task = replace(TASK, also={"mismatched": replace(TASK.validation, name="mismatched")}, challenge={"hard": hard})
    before = os.umask(0o077)
    try:
        shipped = cw.export(model, HARD, tmp_path / "out", "zero", task=task, measure=False)
    finally:
        os.umask(before)
    assert shipped.cases[["dataset", "domain"]].drop_duplicates().to_numpy().tolist() == [
        ["validation", "in-domain"],
        ["mismatched", "in-domain too"],
        ["hard", "challenge"],
    ]
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "out").rglob("*")} == {0}
    card = (tmp_path / "out" / "README.md").read_text()
    assert "| hard | two lines | 4 |" in card
    assert "| hard | a\\|b | 4 |" in card
