"""Tokens and the words they are pieces of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from corewood.errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SPECIAL = -1


@dataclass(frozen=True)
class Words:
    """One example as the model sees it, token by token."""

    ids: np.ndarray  # (token,)
    tokens: tuple[str, ...]  # as text: pieces of words, special tokens by their names
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


def words_of(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], max_length: int) -> Words:
    """`texts` is one text, or a pair."""
    if not tokenizer.is_fast:
        raise InputError("what heads attend to is read word by word, which needs a fast tokenizer; this model has none")
    row = tokenizer(*texts, truncation=True, max_length=max_length, return_offsets_mapping=True, verbose=False)
    ids = np.array(row["input_ids"])
    spans, inside, pieces = row["offset_mapping"], row.sequence_ids(), row.word_ids()
    word, names, tokens, last = [], [], [], None
    for i, (sentence, piece, (start, end)) in enumerate(zip(inside, pieces, spans, strict=True)):
        here = (sentence, piece)
        if sentence is None:
            names.append(str(tokenizer.convert_ids_to_tokens(int(ids[i]))))
            tokens.append(names[-1])
        else:
            text = texts[sentence]
            tokens.append(text[start:end].strip() or str(tokenizer.convert_ids_to_tokens(int(ids[i]))))
            # some tokenizers call a whole text one word: a space begins a new one too
            apart = text[start:end][:1].isspace() or text[max(0, start - 1) : start].isspace()
            if here == last and not apart:
                names[-1] += text[start:end].strip()
            else:
                names.append(text[start:end].strip())
        word.append(len(names) - 1)
        last = None if sentence is None else here
    separators = {tokenizer.sep_token_id} - {None}
    return Words(
        ids,
        tuple(tokens),
        np.array([SPECIAL if s is None else s for s in inside]),
        np.array(word),
        tuple(names),
        np.isin(ids, list(separators)),
    )
