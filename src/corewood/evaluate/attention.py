"""What heads attend to: the share of their attention that goes to kinds of places (the Heuristic Core, section 5).

Each kind is a relation between a token that looks (query) and tokens that are looked at (keys). A head's score on an
example is the mass it sends there, averaged over the queries that have such a key at all; pieces of a word count as
one: their queries are averaged, their keys added up. Beside it stands what a head would score that spreads its
attention evenly over all it can see.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import torch
from scipy.stats import norm

from corewood.data.encode import SPECIAL, Encoded, Words, by_length, words_of
from corewood.data.task import Split
from corewood.errors import InputError
from corewood.evaluate.metrics import LEVEL
from corewood.model.load import Model
from corewood.model.reference import Progress, no_progress

MOST = 2**27  # numbers of attention held at once: 512 MiB
KINDS = {
    "previous": "the previous token",
    "next": "the next token",
    "itself": "itself",
    "first": "the first token",
    "separator": "a separator",
    "same word, other sentence": "the same word in the other sentence",
    "same word, same sentence": "the same word elsewhere in its sentence",
}


def relations(words: Words) -> dict[str, np.ndarray]:
    """kind -> (query, key) bool"""
    count = len(words.ids)
    place = np.arange(count)
    ahead = place[None, :] - place[:, None]  # key minus query
    real = words.sentence != SPECIAL
    spelling = {name: i for i, name in enumerate(dict.fromkeys(n.casefold() for n in words.names))}
    name = np.array([spelling[words.names[w].casefold()] for w in words.word])
    content = words.content[words.word]
    same = (name[:, None] == name[None, :]) & content[:, None] & content[None, :]
    other_word = words.word[:, None] != words.word[None, :]
    other_sentence = words.sentence[:, None] != words.sentence[None, :]
    looks = real[:, None] & np.ones((1, count), bool)
    return {
        "previous": (ahead == -1) & looks,
        "next": (ahead == 1) & looks,
        "itself": (ahead == 0) & looks,
        "first": (place[None, :] == 0) & looks & (place[:, None] != 0),
        "separator": words.separator[None, :] & looks,
        "same word, other sentence": same & other_sentence,
        "same word, same sentence": same & ~other_sentence & other_word,
    }


def query_weights(words: Words, relation: np.ndarray) -> np.ndarray:
    """(query,) one share for every word that has such a key, split evenly over its pieces."""
    has = relation.any(1)
    pieces = np.bincount(words.word[has], minlength=len(words.names))
    return np.where(has, 1 / np.maximum(pieces[words.word], 1), 0.0)


@contextmanager
def eager(model: Model) -> Iterator[None]:
    """Only the eager implementation hands out attention; the model's own comes back at the end."""
    before = model.net.config._attn_implementation
    model.net.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.net.set_attn_implementation(before)


def batch_of(model: Model, examples: Sequence[Words]) -> dict[str, torch.Tensor]:
    """Model inputs of these examples, padded to the longest."""
    lengths = np.array([len(w.ids) for w in examples])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    types = None
    if "token_type_ids" in model.tokenizer.model_input_names:
        types = np.concatenate([sentence_types(w) for w in examples])
    pad = model.tokenizer.pad_token_id
    flat = Encoded(np.concatenate([w.ids for w in examples]), types, offsets, 0 if pad is None else int(pad))
    return flat.batch(np.arange(len(examples)), model.device)


@torch.inference_mode()
def attention_of(model: Model, examples: Sequence[Words]) -> torch.Tensor:
    """(example, layer, head, query, key), padded to the longest."""
    with eager(model):
        given = model.net(**batch_of(model, examples), output_attentions=True).attentions
    if not given or given[0] is None:
        raise InputError(f"model {model.name}: it does not hand out its attention")
    return torch.stack([layer.float().cpu() for layer in given], 1)


def sentence_types(words: Words) -> np.ndarray:
    """Token types as BERT has them: a special token belongs to the sentence before it."""
    second = np.flatnonzero(words.sentence == 1)
    return (np.arange(len(words.ids)) >= (second[0] if len(second) else len(words.ids))).astype(np.int8)


def split_words(model: Model, split: Split, indices: np.ndarray) -> list[Words]:
    rows = split.texts.iloc[indices].itertuples(index=False)
    return [words_of(model.tokenizer, tuple(row), model.max_length) for row in rows]


def head_scores(model: Model, examples: Sequence[Words], progress: Progress = no_progress) -> pd.DataFrame:
    """One row per head and kind: layer, head, kind, mean, low, high, uniform, examples."""
    heads = model.units.layers * model.units.heads
    scores = {kind: np.full((len(examples), heads), np.nan) for kind in KINDS}
    uniform = {kind: np.full(len(examples), np.nan) for kind in KINDS}
    done = 0
    lengths = np.array([len(w.ids) for w in examples])
    for indices in by_length(lengths, 32, max(1, MOST // (heads * int(lengths.max())))):
        attention = attention_of(model, [examples[i] for i in indices])
        causal = bool((attention[:, :, :, 0, 1:].abs().sum() == 0).item()) and attention.shape[-1] > 1
        for row, i in enumerate(indices):
            words = examples[i]
            count = len(words.ids)
            own = attention[row, :, :, :count, :count].reshape(heads, count, count).numpy()
            seen = np.tril(np.ones((count, count), bool)) if causal else np.ones((count, count), bool)
            for kind, relation in relations(words).items():
                relation = relation & seen
                weights = query_weights(words, relation)
                if weights.sum() == 0:
                    continue
                weights = weights / weights.sum()
                scores[kind][i] = np.einsum("hqk,qk,q->h", own, relation, weights, optimize=True)
                uniform[kind][i] = ((relation / seen.sum(1, keepdims=True)).sum(1) * weights).sum()
        done += len(indices)
        progress(done, len(examples))
    z = norm.ppf(1 - (1 - LEVEL) / 2)
    parts = []
    for kind in KINDS:
        known = ~np.isnan(uniform[kind])
        n = int(known.sum())
        if n == 0:
            continue
        values = scores[kind][known]
        half = z * values.std(0, ddof=1) / np.sqrt(n) if n > 1 else np.full(heads, np.nan)
        parts.append(
            pd.DataFrame(
                {
                    "layer": np.repeat(np.arange(model.units.layers), model.units.heads),
                    "head": np.tile(np.arange(model.units.heads), model.units.layers),
                    "kind": kind,
                    "mean": values.mean(0),
                    "low": values.mean(0) - half,
                    "high": values.mean(0) + half,
                    "uniform": uniform[kind][known].mean(),
                    "examples": n,
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


@dataclass(frozen=True)
class AttentionMap:
    """Attention of all heads on one example; rows look, columns are looked at."""

    words: tuple[str, ...]
    sentence: np.ndarray  # (word,) 0, 1 or SPECIAL
    values: np.ndarray = field(repr=False)  # (layer, head, word, word)

    def _of(self, layer: int, head: int) -> np.ndarray:
        layers, heads = self.values.shape[:2]
        if not (0 <= layer < layers and 0 <= head < heads):
            raise InputError(f"no head L{layer}.H{head}: the model has {layers} layers of {heads} heads, counted from 0")
        return np.asarray(self.values[layer, head])

    def head(self, layer: int, head: int) -> pd.DataFrame:
        """The map of one head: a frame with words on both axes."""
        return pd.DataFrame(self._of(layer, head), index=list(self.words), columns=list(self.words))

    def between(self, layer: int, head: int) -> pd.DataFrame:
        """The part of a pair that crosses: from words of the first sentence to words of the second, and back, added."""
        one, other = self.sentence == 0, self.sentence == 1
        if not other.any():
            raise InputError("this example is one text: there is nothing between two")
        whole = self._of(layer, head)
        names = np.array(self.words, dtype=object)
        return pd.DataFrame(whole[np.ix_(one, other)] + whole[np.ix_(other, one)].T, names[one], names[other])


def merged(words: Words, attention: np.ndarray) -> np.ndarray:
    """(..., token, token) -> (..., word, word): queries averaged over pieces, keys added."""
    belongs = np.equal.outer(np.arange(len(words.names)), words.word).astype(np.float64)  # (word, token)
    return np.asarray((belongs / belongs.sum(1, keepdims=True)) @ attention @ belongs.T)


def attention_map(model: Model, first: str, second: str | None = None) -> AttentionMap:
    """Every head's map of one text, or of a pair; pieces are merged into words."""
    words = words_of(model.tokenizer, (first,) if second is None else (first, second), model.max_length)
    values = attention_of(model, [words])[0].numpy()
    sentence: Mapping[int, int] = dict(zip(words.word.tolist(), words.sentence.tolist(), strict=True))
    return AttentionMap(words.names, np.array([sentence[w] for w in range(len(words.names))]), merged(words, values))
