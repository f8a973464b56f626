"""Training with those rows of the word embeddings that occur in the texts, and no others.

A row whose token no training text holds gets a gradient of zero, and Adam without weight decay leaves it where it is: to
leave it out changes nothing but the time. Of BERT-base's parameters a fifth are word embeddings, of a small model's half.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from corewood.data.encode import Encoded
from corewood.model.load import Model


class UsedRows:
    """Between `attach` and `detach` the embedding holds the used rows alone; ids are translated on their way into it."""

    def __init__(self, embedding: nn.Embedding, ids: np.ndarray) -> None:
        self.embedding, self.full, self.padding = embedding, embedding.weight, embedding.padding_idx
        used = np.union1d(ids, [] if self.padding is None else [self.padding]).astype(np.int64)
        self.used = torch.from_numpy(used).to(self.full.device)
        self.place = torch.full((len(self.full),), -1, device=self.full.device)  # id -> row; what is unused has none
        self.place[self.used] = torch.arange(len(used), device=self.full.device)
        self.some = nn.Parameter(self.full.detach()[self.used].clone())
        self.hook: Any = None

    def translate(self, _module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (self.place.to(args[0].device)[args[0]], *args[1:])

    def attach(self) -> None:
        self.embedding.weight = self.some
        self.embedding.padding_idx = None if self.padding is None else int(self.place[self.padding])
        self.hook = self.embedding.register_forward_pre_hook(self.translate)

    def detach(self) -> None:
        self.hook.remove()
        with torch.no_grad():
            self.full.data = self.full.data.to(self.some.device)  # Trainer may have moved the model meanwhile
            self.full[self.used.to(self.some.device)] = self.some
        self.embedding.weight, self.embedding.padding_idx = self.full, self.padding

    @contextmanager
    def whole(self) -> Iterator[None]:
        """The model as others know it, for saving it on the way."""
        self.detach()
        try:
            yield
        finally:
            self.attach()


@contextmanager
def used_rows(model: Model, train: Encoded, weight_decay: float) -> Iterator[UsedRows | None]:
    """None where every row may change: with weight decay, or where the embedding is of a special kind or shared."""
    embedding: Any = model.net.get_input_embeddings()
    plain = type(embedding) is nn.Embedding and embedding.max_norm is None and not embedding.sparse
    if weight_decay or not plain or shared(model.net, embedding.weight):
        yield None
        return
    rows = UsedRows(embedding, np.append(train.ids, train.pad_id))
    rows.attach()
    try:
        yield rows
    finally:
        rows.detach()


def shared(net: nn.Module, weight: nn.Parameter) -> bool:
    return sum(p is weight for _, p in net.named_parameters(remove_duplicate=False)) > 1
