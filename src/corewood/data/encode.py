"""Text into token ids or words, and ids into batches of similar length."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from corewood.data.task import Split, one_split
from corewood.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

SPECIAL = -1  # as the sentence of a token: none
POOL = 50


@dataclass(frozen=True)
class Encoded:
    """Token ids of many examples, end to end, without padding."""

    ids: np.ndarray  # (token,) int32
    types: np.ndarray | None  # (token,) int8, which sentence; None for models without token types
    offsets: np.ndarray  # (example + 1,) int64
    pad_id: int
    truncated: int = 0  # examples that were longer than the model's positions

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        return f"<Encoded: {len(self)} examples, {len(self.ids):,} tokens, {self.truncated or 'none'} cut>"

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    def take(self, indices: np.ndarray) -> Encoded:
        """These examples alone, in this order."""
        where = np.concatenate([np.arange(0), *(np.arange(self.offsets[i], self.offsets[i + 1]) for i in indices)])
        offsets = np.concatenate([[0], np.cumsum(self.lengths[indices])])
        types = None if self.types is None else self.types[where]
        return Encoded(self.ids[where], types, offsets, self.pad_id, self.truncated)

    def batch(self, indices: np.ndarray, device: Any = "cpu", length: int | None = None) -> dict[str, Tensor]:
        """Model inputs of these examples, padded to the longest of them, or to `length`.

        Padding stands on the right whatever the tokenizer prefers: on the left it would move the positions of every
        model that counts them from the first column, and with them the logits.
        """
        import torch

        lengths = self.lengths[indices]
        width = int(lengths.max()) if length is None else length
        column = np.arange(width)
        inside = column < lengths[:, None]  # (example, column)
        source = np.where(inside, self.offsets[indices][:, None] + column, 0)  # index into the flat ids
        batch = {
            "input_ids": np.where(inside, self.ids[source], self.pad_id).astype(np.int64),
            "attention_mask": inside.astype(np.int64),
        }
        if self.types is not None:
            batch["token_type_ids"] = np.where(inside, self.types[source], 0).astype(np.int64)
        return {name: torch.from_numpy(values).to(device) for name, values in batch.items()}


def encode(split: Split, tokenizer: PreTrainedTokenizerBase, max_length: int) -> Encoded:
    """Tokenise a split; texts longer than `max_length` tokens are cut and counted.

    Example:
        >>> examples = cw.encode(task.validation, model.tokenizer, model.max_length)
        >>> examples
        <Encoded: 60 examples, 1,077 tokens, none cut>
        >>> model(**examples.batch([0, 1])).logits.shape
        torch.Size([2, 2])
    """
    one_split(split, "encode")
    columns = [split.texts[column].tolist() for column in split.texts]
    keys = ["input_ids"] + (["token_type_ids"] if "token_type_ids" in tokenizer.model_input_names else [])
    # not verbose: the tokenizer would warn of long texts, which are counted here
    rows = tokenizer(*columns, truncation=False, return_attention_mask=False, verbose=False)
    long = [i for i, ids in enumerate(rows["input_ids"]) if len(ids) > max_length]
    if long:
        cut = tokenizer(*[[c[i] for i in long] for c in columns], truncation=True, max_length=max_length, verbose=False)
        for key in keys:
            for place, i in enumerate(long):
                rows[key][i] = cut[key][place]
    flat = {key: np.fromiter((t for row in rows[key] for t in row), np.int32) for key in keys}
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows["input_ids"]])])
    if (empty := np.flatnonzero(np.diff(offsets) == 0)).size:
        raise InputError(f"{split.name}: example {empty[0] + 1} has not one token, and nothing can be said of it; remove it")
    types = flat["token_type_ids"].astype(np.int8) if "token_type_ids" in flat else None
    return Encoded(flat["input_ids"], types, offsets, tokenizer.pad_token_id or 0, len(long))


def unknown_share(split: Split, tokenizer: PreTrainedTokenizerBase, most: int = 100) -> float:
    """Of the tokens of some texts, how many the tokenizer does not know; special tokens count as none."""
    texts = [text for column in split.texts for text in split.texts[column].head(most)]
    ids = [i for row in tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"] for i in row]
    return ids.count(tokenizer.unk_token_id) / len(ids) if ids and tokenizer.unk_token_id is not None else 0.0


def by_length(
    lengths: np.ndarray, size: int = 64, tokens: int = 8192, progress: Callable[[int, int], None] | None = None
) -> Iterator[np.ndarray]:
    """Batches for evaluation: examples of similar length together, at most `size` of them and `tokens` tokens.

    No batch has one example alone unless the set has, or a text fills a batch: resample ablation needs a second.
    `progress` is told (done, total) after each.
    """
    order = np.argsort(lengths, kind="stable")
    start = 0
    while start < len(order):
        end = start
        while end < len(order) and end - start < size and (end + 1 - start) * lengths[order[end]] <= tokens:
            end += 1
        end = max(end, start + 1)
        if len(order) - end == 1:
            end = len(order)
        yield order[start:end]
        start = end
        if progress is not None:
            progress(start, len(order))


def shuffled(lengths: np.ndarray, size: int, seed: int) -> Iterator[np.ndarray]:
    """Endless training batches: each epoch a new shuffle, sorted by length within pools of `POOL` batches.

    The k-th batch depends on the lengths, the size and the seed alone. Every batch is full; a set smaller than one
    batch is repeated.
    """
    epoch, carry = 0, np.zeros(0, np.int64)
    while True:
        rng = np.random.default_rng([seed, epoch])
        order = np.concatenate([carry, rng.permutation(len(lengths))])
        full = len(order) // size * size
        order, carry = order[:full], order[full:]
        for first in range(0, full, POOL * size):
            part = order[first : first + POOL * size]
            part = part[np.argsort(lengths[part], kind="stable")]
            batches = part.reshape(-1, size)
            yield from batches[rng.permutation(len(batches))]
        epoch += 1


@dataclass(frozen=True)
class Words:
    """One example as the model sees it, token by token."""

    ids: np.ndarray  # (token,)
    sentence: np.ndarray  # (token,) 0, 1, or SPECIAL
    word: np.ndarray  # (token,) which word of the example a token belongs to; special tokens are words of their own
    names: tuple[str, ...]  # (word,) as written
    separator: np.ndarray  # (token,) bool

    @property
    def content(self) -> np.ndarray:
        """(word,) bool: words with a letter or a digit; no punctuation, no special token."""
        special = np.zeros(len(self.names), bool)
        special[self.word[self.sentence == SPECIAL]] = True
        return np.array([any(c.isalnum() for c in name) for name in self.names]) & ~special

    @property
    def types(self) -> np.ndarray:
        """(token,) int8, as BERT has them: a special token belongs to the sentence before it."""
        return np.logical_or.accumulate(self.sentence == 1).astype(np.int8)


def words_of(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], max_length: int) -> Words:
    """`texts` is one text, or a pair."""
    if not tokenizer.is_fast:
        raise InputError("what heads attend to is read word by word, which needs a fast tokenizer; this model has none")
    row = tokenizer(*texts, truncation=True, max_length=max_length, return_offsets_mapping=True, verbose=False)
    ids, sentences = np.array(row["input_ids"]), row.sequence_ids()
    word, names, last = [], [], None
    for token, sentence, piece, (start, end) in zip(ids, sentences, row.word_ids(), row["offset_mapping"], strict=True):
        here = (sentence, piece)
        if sentence is None:
            names.append(tokenizer.convert_ids_to_tokens(int(token)))
        else:
            text = texts[sentence]
            # some tokenizers call a whole text one word: a space begins a new one too
            apart = text[start:end][:1].isspace() or text[max(0, start - 1) : start].isspace()
            if here != last or apart:
                names.append("")
            names[-1] += text[start:end].strip()
        word.append(len(names) - 1)
        last = here
    sentence = np.array([SPECIAL if s is None else s for s in sentences])
    return Words(ids, sentence, np.array(word), tuple(names), np.asarray(ids == tokenizer.sep_token_id))
