"""The last layer, for the one token that the classifier reads.

Of the last layer a BERT's classifier reads the first token alone. All tokens are keys and values of its attention, but what
stands behind that, three quarters of the layer's work, is wanted for one of them only. Answers, and gradients of answers, stay
what they are; what the layer gives for other tokens is not there to be looked at. Fine-tuning computes all of it: with fewer
numbers to draw, dropout would draw others, and every model would come out anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from torch import Tensor

from corewood.spec import Ablation

if TYPE_CHECKING:
    from corewood.model.load import Model


def reads_first(model: Model) -> bool:
    """Whether nothing but the first token is read: so it is in transformers' own classes of some families."""
    own = type(model.net).__module__.startswith("transformers.models.")
    chunks = getattr(model.net.config, "chunk_size_feed_forward", 0)  # equal parts of the tokens: one token has none
    return own and bool(model.family.behind_attention) and not chunks


@contextmanager
def first_token(model: Model, ablate: Ablation = "mean") -> Iterator[None]:
    """Inside, the last layer goes on from its attention with the first token alone, where that is all that is read.

    Not where closed units take the values of other examples: those of all tokens may be asked for.
    """
    if ablate == "resample" or not reads_first(model):
        yield
        return

    def cut(_module: Any, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(x[:, :1] for x in args)  # (batch, token, feature): what attention gives, and what went into it

    handle = model.layers[-1].get_submodule(model.family.behind_attention).register_forward_pre_hook(cut)
    try:
        yield
    finally:
        handle.remove()
