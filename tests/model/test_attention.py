"""What heads attend to: on constructed attention, where every score is known."""

from __future__ import annotations

import numpy as np
import pytest
import tiny
import tokenizers
import torch
import transformers as t

from corewood.data.encode import words_of
from corewood.errors import InputError
from corewood.evaluate import attention as module
from corewood.evaluate.attention import attention_map, attention_of, head_scores, merged, relations
from corewood.report.attention import attention_map_chart

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "doct", "##or", "saw", "a", "play", "##er", ".", "run", "##ning"]


def piece_tokenizer() -> t.PreTrainedTokenizerFast:
    core = tokenizers.Tokenizer(tokenizers.models.WordPiece({p: i for i, p in enumerate(PIECES)}, unk_token="[UNK]"))
    core.normalizer = tokenizers.normalizers.Lowercase()
    core.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    core.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return t.PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )


WORDS = words_of(piece_tokenizer(), ("The doctor saw a player.", "A Player saw the doctor."), 64)


def test_pieces_belong_to_words_and_sentences() -> None:
    assert WORDS.names == (
        "[CLS]", "The", "doctor", "saw", "a", "player", ".", "[SEP]", "A", "Player", "saw", "the", "doctor", ".", "[SEP]",
    )  # fmt: skip
    assert len(WORDS.ids) == 19  # doctor and player are two pieces each, twice
    assert WORDS.word[WORDS.ids == PIECES.index("##or")].tolist() == [2, 12]
    assert [n for n, c in zip(WORDS.names, WORDS.content, strict=True) if not c] == ["[CLS]", ".", "[SEP]", ".", "[SEP]"]
    assert WORDS.separator.sum() == 2


def test_a_tokenizer_that_calls_a_text_one_word() -> None:
    """As those of Llama and Mistral do."""
    pieces = {p: i for i, p in enumerate(["<unk>", "\u2581the", "\u2581nun", "\u2581saw", "s"])}
    core = tokenizers.Tokenizer(tokenizers.models.Unigram([("<unk>", 0), *((p, -1.0) for p in list(pieces)[1:])], unk_id=0))
    core.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(split=False)
    words = words_of(t.PreTrainedTokenizerFast(tokenizer_object=core, unk_token="<unk>"), ("the nuns saw", "saw the nuns"), 64)
    assert words.names == ("the", "nuns", "saw", "saw", "the", "nuns")


def test_the_same_word_is_found_across_pieces_and_case() -> None:
    same = relations(WORDS)["same word, other sentence"]
    doct = np.flatnonzero(WORDS.ids == PIECES.index("doct"))
    assert same[doct[0]].nonzero()[0].tolist() == [doct[1], doct[1] + 1]  # both pieces of the other doctor
    assert not same[WORDS.ids == PIECES.index(".")].any()  # punctuation is no word
    assert not relations(WORDS)["same word, same sentence"].any()  # no word stands twice in one sentence


def constructed() -> dict[str, np.ndarray]:
    """(query, key) of heads that do one thing each."""
    n = len(WORDS.ids)
    heads = {"previous": np.eye(n, k=-1), "next": np.eye(n, k=1), "itself": np.eye(n), "even": np.full((n, n), 1 / n)}
    heads["first"] = np.zeros((n, n))
    heads["first"][:, 0] = 1
    same = relations(WORDS)["same word, other sentence"]
    heads["other"] = same / np.maximum(same.sum(1, keepdims=True), 1)
    return heads


def test_scores_of_heads_that_do_one_thing(monkeypatch: pytest.MonkeyPatch) -> None:
    heads = constructed()
    model = tiny.model("bert", num_attention_heads=6, hidden_size=48, num_hidden_layers=1)
    given = torch.tensor(np.stack(list(heads.values())))[None, None]  # (example, layer, head, query, key)
    monkeypatch.setattr(module, "attention_of", lambda _model, examples: given.expand(len(examples), -1, -1, -1, -1))
    table = head_scores(model, [WORDS, WORDS]).pivot(index="head", columns="kind", values="mean")
    table.index = list(heads)
    uniform = head_scores(model, [WORDS]).drop_duplicates("kind").set_index("kind")["uniform"]
    for kind in ("previous", "next", "itself", "first"):
        assert table.loc[kind, kind] == pytest.approx(1)
    assert table.loc["other", "same word, other sentence"] == pytest.approx(1)
    assert table.loc["previous", "next"] == 0
    assert table.loc["even"].to_dict() == pytest.approx(uniform[table.columns].to_dict())
    assert uniform["separator"] == pytest.approx(2 / 19)
    # five words have a partner: the saw a have one key, doctor player two
    assert uniform["same word, other sentence"] == pytest.approx((3 * 1 + 2 * 2) / 5 / 19)


def test_merging_averages_queries_and_adds_keys() -> None:
    rng = np.random.default_rng(0)
    raw = rng.random((2, 19, 19))
    raw /= raw.sum(-1, keepdims=True)
    found = merged(WORDS, raw)
    assert found.shape == (2, 15, 15)
    np.testing.assert_allclose(found.sum(-1), 1)
    doctor, other = np.flatnonzero(WORDS.word == 2), np.flatnonzero(WORDS.word == 12)
    assert found[1, 2, 12] == pytest.approx(raw[1][np.ix_(doctor, other)].sum(1).mean())


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_real_attention_of_every_family(family: str) -> None:
    model = tiny.model(family)
    before = model.net.config._attn_implementation
    pairs = [("the baker saw the nun .", "the nun saw the baker ."), ("a mayor fell .", "a mayor fell .")]
    words = [words_of(model.tokenizer, pair, 64) for pair in pairs]
    found = attention_of(model, words)
    assert found.shape[:3] == (2, 2, 4)
    assert model.net.config._attn_implementation == before
    alone = attention_of(model, words[1:])[0]  # without padding
    n = len(words[1].ids)
    np.testing.assert_allclose(found[1, :, :, :n, :n].numpy(), alone.numpy(), atol=1e-5)
    np.testing.assert_allclose(alone.sum(-1).numpy(), 1, atol=1e-4)
    scores = head_scores(model, words)
    assert scores["mean"].between(0, 1).all()
    if family in tiny.DECODERS:
        assert "next" not in set(scores["kind"])  # a decoder sees nothing ahead


def test_a_picture_of_any_head() -> None:
    shown = attention_map(tiny.model("bert"), "the baker saw the nun .", "the nun saw the baker .")
    spec = attention_map_chart(shown, 1, 2).to_dict()
    (rows,) = spec["datasets"].values()
    assert len(rows) == len(shown.words) ** 2
    axis = [name.rstrip("\u200b") for name in spec["encoding"]["x"]["scale"]["domain"]]
    assert axis == list(shown.words)
    first = next(r for r in rows if r["looks"] == "the\u200b" and r["at"].startswith("nun"))
    assert first["value"] == pytest.approx(shown.head(1, 2).iloc[1, 5], abs=1e-3)
    assert len(attention_map_chart(shown, 0, 0, between=True).to_dict()["encoding"]["y"]["scale"]["domain"]) == 6


def test_a_map_of_any_head() -> None:
    model = tiny.model("bert")
    shown = attention_map(model, "the baker saw the nun .", "the nun saw the baker .")
    head = shown.head(1, 2)
    assert list(head.index) == list(head.columns) == list(shown.words)
    assert head.to_numpy().sum(1) == pytest.approx(1)
    between = shown.between(1, 2)
    assert between.shape == (6, 6)
    one, other = shown.sentence == 0, shown.sentence == 1
    want = shown.values[1, 2][np.ix_(one, other)] + shown.values[1, 2][np.ix_(other, one)].T
    np.testing.assert_allclose(between.to_numpy(), want)
    with pytest.raises(InputError, match=r"no head L2\.H0: the model has 2 layers of 4 heads"):
        shown.head(2, 0)
    with pytest.raises(InputError, match="nothing between two"):
        attention_map(model, "the baker fell .").between(0, 0)
