"""What heads attend to: their attention, raw and normed, and the share of it that goes to kinds of places.

A kind (the Heuristic Core, section 5) is a relation between a token that looks (query) and tokens that are looked at
(keys). A head's score on an example is the mass it sends there, averaged over the queries that have such a key at all;
pieces of a word count as one: their queries are averaged, their keys added up. Beside it stands what a head would score
that spreads its attention evenly over all it can see.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from corewood.data.encode import SPECIAL, Encoded, Words, by_length, words_of
from corewood.data.task import Split, a_kind
from corewood.errors import InputError
from corewood.evaluate.metrics import Z
from corewood.model.families import FAMILIES
from corewood.model.gates import at_rest, check_model
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


@torch.inference_mode()
def attention_of(model: Model, examples: Sequence[Words]) -> Tensor:
    """(example, layer, head, query, key), padded to the longest."""
    typed = "token_type_ids" in model.tokenizer.model_input_names
    flat = Encoded(
        np.concatenate([words.ids for words in examples]),
        np.concatenate([words.types for words in examples]) if typed else None,
        np.concatenate([[0], np.cumsum([len(words.ids) for words in examples])]),
        model.tokenizer.pad_token_id or 0,
    )
    own = model.net.config._attn_implementation
    model.net.set_attn_implementation("eager")  # the others do not hand out attention
    try:
        with at_rest(model):
            given = model.net(**flat.batch(np.arange(len(examples)), model.device), output_attentions=True).attentions
    finally:
        model.net.set_attn_implementation(own)
    if not given or given[0] is None:
        raise InputError(f"model {model.name}: it does not hand out its attention")
    return torch.stack([layer.float().cpu() for layer in given], 1)


def head_columns(model: Model, layer: int) -> Tensor:
    """(model's width, head, width of a head): the output projection, cut into what each head goes through."""
    weight = model.attention_outs[layer].weight
    assert isinstance(weight, Tensor)
    weight = weight.T if model.family.transposed else weight
    return weight.detach().reshape(len(weight), model.units.heads, -1)


def split_values(model: Model, projected: Tensor) -> Tensor:
    """What the value projection gives -> (example, token, head, width); grouped values stand once per query head."""
    if projected.dim() != 3:
        raise InputError(f"model type {model.net.config.model_type!r}: its values are not in (example, token) order")
    heads, row = model.units.heads, model.family
    if row.fused == "thirds":
        return projected.chunk(3, -1)[2].reshape(*projected.shape[:2], heads, -1)
    if row.fused == "per_head":
        return projected.reshape(*projected.shape[:2], heads, 3, -1)[..., 2, :]
    values = projected.reshape(*projected.shape[:2], model.units.groups, -1)
    return values.repeat_interleave(heads // model.units.groups, 2)


@torch.inference_mode()
def normed_attention_of(model: Model, examples: Sequence[Words]) -> tuple[Tensor, Tensor]:
    """Raw and normed attention, each (example, layer, head, query, key), padded to the longest.

    Normed attention (Kobayashi et al. 2020) tells how much each token really adds, not only how much it is looked at.
    A head h adds to token i the sum over j of alpha[i, j] f_h(x_j), where f_h(x_j) is the head's value vector at j after
    that head's columns of the output projection, without its bias. Normed attention is alpha[i, j] ||f_h(x_j)||.
    """
    row = model.family
    if (len(row.attention_in) == 1) == (row.fused == "no"):
        known = ", ".join(name for name, other in FAMILIES.items() if other.fused != "no")
        raise InputError(
            f"model type {model.net.config.model_type!r}: where its value vectors stand in the projection is not known, so "
            f"there is no normed attention for it (known of this sort: {known}); raw attention needs nothing of the kind"
        )
    norms: dict[int, Tensor] = {}

    def hook(layer: int) -> Callable[..., None]:
        def keep(_module: Any, _args: Any, projected: Tensor) -> None:
            values, columns = split_values(model, projected), head_columns(model, layer)
            heads = range(model.units.heads)  # one at a time, to save memory
            each = [(values[:, :, h] @ columns[:, h].T).float().norm(dim=-1) for h in heads]  # ||f_h(x_j)||
            norms[layer] = torch.stack(each, 1).cpu()  # (example, head, token)

        return keep

    with ExitStack() as stack:
        for i, layer in enumerate(model.layers):
            stack.callback(layer.get_submodule(row.attention_in[-1]).register_forward_hook(hook(i)).remove)
        raw = attention_of(model, examples)
    each = torch.stack([norms[i] for i in range(model.units.layers)], 1)  # (example, layer, head, key)
    return raw, raw * each[:, :, :, None, :]


def relations(words: Words) -> dict[str, np.ndarray]:
    """kind -> (query, key) bool"""
    place = np.arange(len(words.ids))
    ahead = place[None, :] - place[:, None]  # key minus query
    looks = (words.sentence != SPECIAL)[:, None]
    name = np.unique([name.casefold() for name in words.names], return_inverse=True)[1][words.word]  # (token,) a number each
    content = words.content[words.word]
    same = (name[:, None] == name[None, :]) & content[:, None] & content[None, :]
    other_word = words.word[:, None] != words.word[None, :]
    other_sentence = words.sentence[:, None] != words.sentence[None, :]
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
    """(query,) that add up to one: the same for every word that has such a key, split evenly over its pieces."""
    has = relation.any(1)
    pieces = np.bincount(words.word[has], minlength=len(words.names))
    weights = np.where(has, 1 / np.maximum(pieces[words.word], 1), 0.0)
    return np.asarray(weights / weights.sum())


def split_words(model: Model, split: Split, indices: np.ndarray) -> list[Words]:
    rows = split.texts.iloc[indices].itertuples(index=False)
    return [words_of(model.tokenizer, tuple(row), model.max_length) for row in rows]


def head_scores(model: Model, examples: Sequence[Words], progress: Progress = no_progress) -> pd.DataFrame:
    """One row per head and kind: layer, head, kind, mean, low, high, uniform, examples."""
    heads = model.units.layers * model.units.heads
    scores = {kind: np.full((len(examples), heads), np.nan) for kind in KINDS}
    uniform = {kind: np.full(len(examples), np.nan) for kind in KINDS}
    lengths = np.array([len(w.ids) for w in examples])
    for indices in by_length(lengths, 32, max(1, MOST // (heads * int(lengths.max()))), progress):
        attention = attention_of(model, [examples[i] for i in indices])
        causal = bool((attention[:, :, :, 0, 1:].abs().sum() == 0).item()) and attention.shape[-1] > 1
        for row, i in enumerate(indices):
            words = examples[i]
            count = len(words.ids)
            own = attention[row, :, :, :count, :count].reshape(heads, count, count).numpy()
            seen = np.tri(count, k=0 if causal else count, dtype=bool)
            for kind, relation in relations(words).items():
                relation = relation & seen
                if relation.any():
                    weights = query_weights(words, relation)
                    scores[kind][i] = np.einsum("hqk,qk,q->h", own, relation, weights, optimize=True)
                    uniform[kind][i] = ((relation / seen.sum(1, keepdims=True)).sum(1) * weights).sum()
    layer, head = np.divmod(np.arange(heads), model.units.heads)
    tables = []
    for kind in KINDS:
        known = ~np.isnan(uniform[kind])
        n = int(known.sum())
        if n == 0:
            continue
        values = scores[kind][known]
        mean = values.mean(0)
        half = Z * values.std(0, ddof=1) / np.sqrt(n) if n > 1 else np.full(heads, np.nan)
        found = {"layer": layer, "head": head, "kind": kind, "mean": mean, "low": mean - half, "high": mean + half}
        tables.append(pd.DataFrame({**found, "uniform": uniform[kind][known].mean(), "examples": n}))
    return pd.concat(tables, ignore_index=True)


@dataclass(frozen=True)
class AttentionMap:
    """Attention of all heads on one example; rows look, columns are looked at. Made by `cw.attention_map`.

    Example:
        >>> shown = cw.attention_map(model, "The nun saw the cook.", "The cook saw the nun.")
        >>> shown
        <AttentionMap of 2 layers x 4 heads: [CLS] The nun saw the cook . [SEP] The cook saw the nun . [SEP]>
        >>> shown.head(1, 3).shape, shown.between(1, 3).shape
        ((15, 15), (6, 6))
    """

    words: tuple[str, ...]
    sentence: np.ndarray  # (word,) 0, 1 or SPECIAL
    values: np.ndarray = field(repr=False)  # (layer, head, word, word)

    def __repr__(self) -> str:
        layers, heads = self.values.shape[:2]
        return f"<AttentionMap of {layers} layers x {heads} heads: {' '.join(self.words)}>"

    def _repr_html_(self) -> str:
        return escape(repr(self)[1:-1])

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
    """Every head's map of one text, or of a pair; pieces are merged into words.

    Example:
        >>> shown = cw.attention_map(model, "The nun saw the cook.")
        >>> shown.head(0, 1).loc["nun"].sum().round(3)  # a word's attention adds up to one
        np.float64(1.0)
    """
    check_model(model, "attention_map")
    for text in (first, second):
        if not isinstance(text, str | None):
            raise InputError(f"attention_map: takes a text, or two, not {a_kind(text)}")
    words = words_of(model.tokenizer, (first,) if second is None else (first, second), model.max_length)
    values = attention_of(model, [words])[0].numpy()
    first_token = np.unique(words.word, return_index=True)[1]  # (word,)
    return AttentionMap(words.names, words.sentence[first_token], merged(words, values))
