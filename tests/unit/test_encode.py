from __future__ import annotations

from itertools import islice

import numpy as np
import pandas as pd
import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st

from corewood.data.encode import by_length, encode, shuffled
from corewood.data.overlap import overlap
from corewood.data.task import Split
from corewood.errors import InputError

SPLIT = overlap(train=64, validation=40, per_case=2).validation


@pytest.mark.parametrize("types", [True, False])
def test_batches_equal_the_tokenizers_own(types: bool) -> None:
    tokenizer = tiny.tokenizer("right", types)
    encoded = encode(SPLIT, tokenizer, 64)
    chosen = np.array([3, 0, 17, 3])
    texts = [SPLIT.frame[c].iloc[chosen].tolist() for c in ("first", "second")]
    theirs = tokenizer(*texts, padding=True, return_tensors="pt")
    ours = encoded.batch(chosen)
    assert set(ours) == set(theirs)
    for name in ours:
        assert ours[name].equal(theirs[name]), name
    again = encoded.take(chosen).batch(np.arange(4))
    assert all(again[name].equal(ours[name]) for name in ours)
    left = encode(SPLIT, tiny.tokenizer("left", types), 64).batch(chosen)
    assert all(left[name].equal(ours[name]) for name in ours)  # ours stand on the right in any case
    assert encoded.batch(chosen, length=50)["input_ids"].shape == (4, 50)


def test_single_sentences() -> None:
    single = Split("s", SPLIT.frame.drop(columns="second"), SPLIT.labels)
    tokenizer = tiny.tokenizer()
    ours = encode(single, tokenizer, 64).batch(np.arange(5))
    theirs = tokenizer(single.frame["first"].head(5).tolist(), padding=True, return_tensors="pt")
    assert ours["input_ids"].equal(theirs["input_ids"])


def test_a_text_without_a_token_is_refused() -> None:
    tokenizer = tiny.tokenizer()
    tokenizer.backend_tokenizer.post_processor = None  # as GPT-2's: no special tokens
    frame = pd.DataFrame({"first": ["the nun fell", ""], "label": ["a", "b"]})
    with pytest.raises(InputError, match="dev: example 2 has not one token"):
        encode(Split("dev", frame, ("a", "b")), tokenizer, 64)


def test_long_texts_are_cut_and_counted() -> None:
    frame = pd.DataFrame({"first": ["The nun wept.", "The nun " * 40], "second": ["The nun wept."] * 2, "label": "entailment"})
    encoded = encode(Split("s", frame, SPLIT.labels), tiny.tokenizer(), 20)
    assert encoded.truncated == 1
    assert encoded.lengths.tolist() == [11, 20]


@given(st.lists(st.integers(1, 60), min_size=1, max_size=200), st.integers(1, 16), st.integers(60, 500))
def test_evaluation_batches_take_every_example_once(lengths: list[int], size: int, tokens: int) -> None:
    batches = list(by_length(np.array(lengths), size, tokens))
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    for batch in batches[:-1]:  # the last may take one more, so that no example stands alone
        assert len(batch) <= size
        assert max(lengths[i] for i in batch) * len(batch) <= tokens or len(batch) == 1
    if len(lengths) > 1:
        assert len(batches[-1]) > 1 or size == 1 or tokens < 120


@given(st.integers(1, 90), st.integers(1, 16), st.integers(0, 5))
def test_training_batches_are_full_fair_and_decided_by_the_seed(count: int, size: int, seed: int) -> None:
    lengths = np.random.default_rng(count).integers(1, 60, count)
    steps = 3 * count  # at least three epochs
    batches = list(islice(shuffled(lengths, size, seed), steps))
    assert all(len(b) == size for b in batches)
    seen = np.bincount(np.concatenate(batches), minlength=count)
    assert seen.max() - seen.min() <= 2
    again = list(islice(shuffled(lengths, size, seed), 2, steps))
    assert all((a == b).all() for a, b in zip(again, batches[2:], strict=True))


def test_training_batches_hold_similar_lengths() -> None:
    lengths = np.random.default_rng(0).integers(5, 100, 5000)
    batches = list(islice(shuffled(lengths, 32, 0), 150))
    waste = sum(lengths[b].max() * 32 - lengths[b].sum() for b in batches) / sum(lengths[b].sum() for b in batches)
    assert waste < 0.05  # in random batches nearly half of all tokens would be padding
