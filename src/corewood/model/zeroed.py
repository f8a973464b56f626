"""Drop-in: a subnetwork in the model's own architecture, with zeros where units are closed and their means in biases.

It loads wherever the model does, and is neither smaller nor faster.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from corewood.errors import InputError
from corewood.model.gates import Means
from corewood.model.load import Model
from corewood.model.mask import Mask
from corewood.model.slim import changes, widen
from corewood.model.weights import WeightMask, removed
from corewood.spec import Ablation

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def zeroed(model: Model, mask: Mask, ablate: Ablation = "mean", means: Means | None = None) -> PreTrainedModel:
    """A copy with the logits of the subnetwork."""
    whole = replace(model, net=with_biases(model, mask) if ablate == "mean" else deepcopy(model.net))
    made = changes(whole, mask, ablate, means or model.means, constants=False)
    widen(made, [change.make() for change in made])
    return whole.net


def with_biases(model: Model, mask: Mask) -> PreTrainedModel:
    """A copy that has a bias wherever a mean must go, if its architecture allows for one."""
    row, config = model.family, deepcopy(model.net.config)
    wanted: dict[str, tuple[str, list[Any], Any]] = {
        "the attention's output projection": (row.attention_bias, model.attention_outs, ~np.all(mask.heads, 1)),
        "the MLP's last projection": (row.mlp_bias, model.mlp_outs, ~mask.mlps),
    }
    missing = False
    for what, (key, outs, changed) in wanted.items():
        if not any(out.bias is None for out, here in zip(outs, changed, strict=True) if here):
            continue
        if not key:
            raise InputError(
                f"dropin: {what} of model type {config.model_type!r} has no bias to hold the means of closed units. Leave "
                "dropin out (the ONNX file holds them), or look for subnetworks with ablate: zero"
            )
        setattr(config, key, True)
        missing = True
    if not missing:
        return deepcopy(model.net)
    whole = type(model.net)(config).eval().to(model.device)
    new, _ = whole.load_state_dict(model.net.state_dict(), strict=False)
    with torch.no_grad():
        for name in new:
            whole.get_parameter(name).zero_()
    return whole


def without_weights(model: Model, mask: WeightMask) -> PreTrainedModel:
    """A copy in which removed weights are zero."""
    whole = replace(model, net=deepcopy(model.net))
    with torch.no_grad():
        for name, weight in mask.weights(whole).items():
            weight.masked_fill_(removed(mask, name, weight), 0)
    return whole.net
