"""Checkpoints that are not what they seem: refused while planning, with the file or the tensor that is wrong."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import small
import tiny
import torch
import transformers
from faults.command import corewood
from safetensors.torch import load_file, save_file

from corewood.errors import InputError
from corewood.model.load import check_head, load, read_config, read_tokenizer
from corewood.study.plan import make_plan

WEIGHTS = "model.safetensors"


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.checkpoint(tmp_path_factory.mktemp("good") / "model")


@pytest.fixture
def model(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "model"))


def configure(model: Path, **changes: Any) -> Path:
    config = json.loads((model / "config.json").read_text()) | changes
    (model / "config.json").write_text(json.dumps(config))
    return model


def reweigh(model: Path, change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> Path:
    save_file(change(load_file(model / WEIGHTS)), model / WEIGHTS, metadata={"format": "pt"})
    return model


# the tokenizer


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_a_checkpoint_without_a_tokenizer_is_refused(family: str, tmp_path: Path) -> None:
    tiny.net(family).save_pretrained(tmp_path)
    with pytest.raises(InputError, match=r"no tokenizer beside its weights .*every word would be unknown"):
        load(str(tmp_path))


def test_a_tokenizer_of_another_model_is_refused(model: Path) -> None:
    from corewood.model.checkpoint import check_vocabulary

    words = read_tokenizer(str(model))
    for rows in (len(words) - 1, 2 * len(words) + 1):
        config = read_config(str(configure(model, vocab_size=rows)))
        with pytest.raises(
            InputError, match=f"its embedding matrix {rows:,} rows; this is not the tokenizer it was trained with"
        ):
            check_vocabulary(words, config, "m")
    for rows in (len(words), 2 * len(words)):
        check_vocabulary(words, read_config(str(configure(model, vocab_size=rows))), "m")


def test_texts_that_the_tokenizer_does_not_know_are_told_loudly(tmp_path: Path) -> None:
    study = small.write_study(tmp_path)
    assert not any("WARNING" in note for note in make_plan(small.spec_of(study), tmp_path).notes)
    letters = dict(zip(map(ord, "abcdefghijklm"), "абцдефгхийклм", strict=True))
    frame = pd.read_csv(tmp_path / "train.csv")
    foreign = {column: frame[column].str.translate(letters) for column in ("first", "second")}
    frame.assign(**foreign).to_csv(tmp_path / "train.csv", index=False)
    notes = make_plan(small.spec_of(study), tmp_path).notes
    assert [note.partition(" are unknown")[0].rpartition(" of ")[2] for note in notes if "WARNING" in note] == ["train"]
    assert "is it the tokenizer it was trained with?" in notes[0]


ODD_TOKENIZERS = {
    "tokenizer.json": ["[]", "{}", "null", "{", '{"model": 5}', "[" * 20_000],
    "tokenizer_config.json": ["[]", '{"tokenizer_class": 5}', '{"tokenizer_class": "Nothing"}', '{"model_max_length": "many"}',
                              '{"model_max_length": -3}', '{"pad_token": 5}', "["  * 20_000],
}  # fmt: skip


@pytest.mark.parametrize(("file", "text"), [(file, text) for file in ODD_TOKENIZERS for text in ODD_TOKENIZERS[file]])
def test_odd_tokenizer_files_end_in_a_message_or_in_a_tokenizer(model: Path, file: str, text: str) -> None:
    (model / file).write_text(text)
    with contextlib.suppress(InputError):
        assert load(str(model), check=False).max_length >= 4


def test_an_unknown_token_that_is_not_in_the_vocabulary_is_refused(model: Path) -> None:
    """transformers asks for the number of that token, which is that of the unknown token, and so on."""
    config = json.loads((model / "tokenizer_config.json").read_text())
    (model / "tokenizer_config.json").write_text(json.dumps({**config, "unk_token": ""}))
    with pytest.raises(InputError, match="its tokenizer cannot be loaded"):
        load(str(model), check=False)


def test_a_tokenizer_that_makes_nothing_of_a_text_is_refused(model: Path) -> None:
    content = json.loads((model / "tokenizer.json").read_text())
    content["post_processor"]["single"] = []
    (model / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match="its tokenizer makes nothing of a text"):
        load(str(model), check=False)


# the config


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"num_attention_heads": 0}, "num_attention_heads is a whole number from 1 to 1,000, not 0"),
        ({"num_hidden_layers": -2}, "num_hidden_layers is a whole number from 1"),
        ({"num_hidden_layers": 10**7}, "num_hidden_layers is a whole number from 1 to 1,000"),
        ({"hidden_size": "32"}, "hidden_size is a whole number from 1 to 1,000,000, not '32'"),
        ({"hidden_size": 33}, "cannot be loaded as a classifier"),
        ({"max_position_embeddings": 0}, "max_position_embeddings is a whole number"),
        ({"max_position_embeddings": 2}, "room for 2 tokens|other shapes"),
        ({"num_labels": 10**9}, "num_labels is a whole number from 1 to 10,000"),
        ({"id2label": {"0": "a", "5": "b"}}, "id2label names the classes 0, 1, ... in their order"),
        ({"model_type": "t5"}, "'t5' is not in the architecture table|no architecture that transformers knows"),
        ({"model_type": ["bert"]}, "model_type is a name, not"),
        ({"quantization_config": 5}, "cannot be loaded as a classifier|no architecture"),
        ({"hidden_act": "nothing"}, "cannot be loaded as a classifier"),
        ({"dtype": "nothing"}, "no architecture that transformers knows|cannot be loaded"),
    ],
    ids=str,
)
def test_a_config_that_no_model_has(model: Path, changes: dict[str, Any], said: str) -> None:
    configure(model, **changes)
    for attempt in (load, check_config):
        with pytest.raises(InputError, match=said):
            attempt(str(model))


def check_config(source: str) -> None:
    """As planning does."""
    read_config(source)
    check_head(source)
    load(source)


@pytest.mark.parametrize("text", ["null", "5", "[]", "{", '{"a": ' * 20_000, f'{{"hidden_size": {"9" * 5000}}}'])
def test_a_config_that_is_none(model: Path, text: str) -> None:
    (model / "config.json").write_text(text)
    with pytest.raises(InputError, match=r"config\.json (is not JSON|is no object|is of no architecture)"):
        read_config(str(model))


CODE = "open({!r}, 'w').write('it ran')\nfrom transformers import BertConfig, BertTokenizer\n"


def test_code_of_a_checkpoint_does_not_run_whoever_says_yes(model: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    (model / "own.py").write_text(CODE.format(str(trace)) + "class Own(BertConfig): pass\nclass Words(BertTokenizer): pass\n")
    configure(model, auto_map={"AutoConfig": "own.Own"}, model_type="own")
    words = json.loads((model / "tokenizer_config.json").read_text())
    words |= {"auto_map": {"AutoTokenizer": ["own.Words", None]}, "tokenizer_class": "Words"}
    (model / "tokenizer_config.json").write_text(json.dumps(words))
    code = "import sys; from corewood.model.load import read_config, read_tokenizer, InputError\n"
    for call in ("read_config(sys.argv[1])", "read_tokenizer(sys.argv[1])"):
        code += f"try: {call}\nexcept InputError as problem: print(problem)\n"
    done = subprocess.run(
        [sys.executable, "-c", code, str(model)], input="y\n" * 9, capture_output=True, text=True, check=False,
        env={**os.environ, "HF_MODULES_CACHE": str(tmp_path / "modules")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not trace.exists()


# the weights


def without(name: str) -> Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]:
    return lambda weights: {key: value for key, value in weights.items() if name not in key}


@pytest.mark.parametrize("new_head", [False, True])
def test_weights_that_are_missing_or_do_not_fit_are_refused(good: Path, model: Path, new_head: bool) -> None:
    query = "bert.encoder.layer.0.attention.self.query.weight"
    for change, said in (
        (without(query), rf"1 of the tensors .*\({query}\)"),
        (without("pooler.dense.bias"), r"\(bert\.pooler\.dense\.bias\)"),
        (lambda _: {"unrelated": torch.zeros(3)}, "tensors its config.json asks for are not in its weights"),
    ):
        shutil.copytree(good, model, dirs_exist_ok=True)
        reweigh(model, change)
        refused(model, new_head, said)
    for changes, said in (
        ({"hidden_size": 64}, r"other shapes than its config.json says \(bert\.embeddings\.LayerNorm\.bias: 32, not 64"),
        ({"num_hidden_layers": 1}, "says 1 layers, and its weights have 2"),
        ({"num_hidden_layers": 3}, r"16 of the tensors .*\(bert\.encoder\.layer\.2\."),
    ):
        shutil.copytree(good, model, dirs_exist_ok=True)
        refused(configure(model, **changes), new_head, said)


def refused(model: Path, new_head: bool, said: str) -> None:
    with pytest.raises(InputError, match=said):
        check_head(str(model), new_head=new_head)
    with pytest.raises(InputError, match=said):
        load(str(model), new_head=new_head, labels=["a", "b", "c"] if new_head else None, check=False)


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_only_the_head_may_be_new(family: str, tmp_path: Path) -> None:
    tiny.checkpoint(tmp_path, family)
    assert check_head(str(tmp_path), new_head=True) == []
    made = load(str(tmp_path), ["a", "b", "c"], new_head=True, check=False)
    base = made.net.base_model
    bare = type(base).from_pretrained(tmp_path)
    bare.save_pretrained(tmp_path)
    assert check_head(str(tmp_path), new_head=True) == []
    other = load(str(tmp_path), ["a", "b", "c"], new_head=True, check=False).net.base_model.state_dict()
    assert all(torch.equal(value, other[key]) for key, value in base.state_dict().items())


def test_a_pooler_that_never_was_is_told_of(tmp_path: Path) -> None:
    study = small.write_study(tmp_path)
    transformers.BertModel.from_pretrained(tmp_path / "model", add_pooling_layer=False).save_pretrained(tmp_path / "model")
    notes = make_plan(small.spec_of(study), tmp_path).notes
    assert "model model: has no pooler of its own, so fine-tuning begins with a new one" in notes


def test_a_study_with_fine_tuning_is_refused_while_planning(tmp_path: Path) -> None:
    study = small.write_study(tmp_path)
    configure(tmp_path / "model", hidden_size=64)
    found = corewood(tmp_path, "plan", study.name, "--no-measure")
    assert found.code == 2
    assert "config.json and weights are of two models" in found.err


@pytest.mark.parametrize("harm", ["cut", "empty", "text", "folder", "pickle"])
def test_weights_that_cannot_be_read(model: Path, harm: str, tmp_path: Path) -> None:
    weights, never = model / WEIGHTS, tmp_path / "never"
    content = weights.read_bytes()
    weights.unlink()
    if harm == "folder":
        weights.mkdir()
    elif harm == "pickle":
        (model / "pytorch_model.bin").write_bytes(f"cos\nsystem\n(S'touch {never}'\ntR.".encode())
    else:
        weights.write_bytes({"cut": content[: len(content) // 2], "empty": b"", "text": b"hello" * 100}[harm])
    with pytest.raises(InputError, match=r"cannot be loaded as a classifier|has no weights"):
        check_head(str(model))
    assert not never.exists()


def test_pipes_in_a_checkpoint_are_not_waited_for(model: Path, tmp_path: Path) -> None:
    os.mkfifo(model / "extra.json")
    study = small.write_study(tmp_path)
    assert (
        corewood(tmp_path, "plan", study.name, "--no-measure", "--set", "fine_tune.steps=2").code == 2
    )  # no checkpoints so far
    assert make_plan(small.spec_of(study), tmp_path).jobs
    (model / "config.json").unlink()
    os.mkfifo(model / "config.json")
    found = corewood(tmp_path, "plan", study.name, "--no-measure")
    assert (found.code, "no config.json there" in found.err) == (2, True)
