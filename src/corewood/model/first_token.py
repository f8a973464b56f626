"""The last layer, for the one token that the classifier reads.

Of the last layer a BERT's classifier reads the first token alone. All tokens are keys and values of its attention, but what
stands behind that, three quarters of the layer's work, is wanted for one of them only. Answers, and gradients of answers, stay
what they are; what the layer gives for other tokens is not there to be looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from torch import Tensor

from corewood.spec import Ablation

if TYPE_CHECKING:
    from corewood.model.load import Model

OWN = ("transformers.models.", "transformers.activations", "torch.nn.")  # a class from elsewhere may read any token


def reads_first(model: Model) -> bool:
    """Whether nothing but the first token is read: so it is in some families, unless pooler or classifier were replaced."""
    if not model.family.behind_attention:
        return False
    layers = f"{model.net.base_model_prefix}.{model.family.layers}."
    around = [type(module).__module__ for name, module in model.net.named_modules() if not name.startswith(layers)]
    chunks = getattr(model.net.config, "chunk_size_feed_forward", 0)  # equal parts of the tokens: one token has none
    return all(module.startswith(OWN) for module in around) and not chunks


@contextmanager
def first_token(model: Model, ablate: Ablation = "mean") -> Iterator[None]:
    """Inside, the last layer goes on from its attention with the first token alone, where that is all that is read.

    Not where closed units take the values of other examples: those of all tokens may be asked for. And not with dropout: with
    fewer numbers to draw it would draw others, and models and searches of before would come out anew.
    """
    if ablate == "resample" or model.net.training or not reads_first(model):
        yield
        return

    def cut(_module: Any, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(x[:, :1] for x in args)  # (batch, token, feature): what attention gives, and what went into it

    handle = model.layers[-1].get_submodule(model.family.behind_attention).register_forward_pre_hook(cut)
    try:
        yield
    finally:
        handle.remove()
