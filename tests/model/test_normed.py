"""Normed attention: the parts it is made of add up to what the attention gives, in every family."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import tiny
import torch

from corewood.data.encode import Words, words_of
from corewood.errors import InputError
from corewood.evaluate.attention import attention_of, head_columns, normed_attention_of, split_values
from corewood.model.load import Model

PAIRS = [("the baker saw the nun .", "the nun saw the baker ."), ("a mayor fell .", "a mayor fell .")]


def examples_of(model: Model) -> list[Words]:
    return [words_of(model.tokenizer, pair, 64) for pair in PAIRS]


def watched(model: Model, examples: list[Words]) -> tuple[list[torch.Tensor], list[torch.Tensor], torch.Tensor, torch.Tensor]:
    """What the value projection and the output projection of every layer gave, beside raw and normed attention."""
    values: list[torch.Tensor] = []
    outputs: list[torch.Tensor] = []
    handles: list[Any] = []
    for layer in model.layers:
        value, out = (layer.get_submodule(p) for p in (model.family.attention_in[-1], model.family.attention_out))
        handles.append(value.register_forward_hook(lambda _m, _a, x: values.append(split_values(model, x))))
        handles.append(out.register_forward_hook(lambda _m, _a, x: outputs.append(x)))
    raw, normed = normed_attention_of(model, examples)
    for handle in handles:
        handle.remove()
    return values, outputs, raw, normed


def with_random_biases(model: Model) -> Model:
    with torch.no_grad():
        for name, parameter in model.net.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(generator=torch.Generator().manual_seed(len(name)))
    return model


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_the_parts_add_up_to_what_the_attention_gives(family: str) -> None:
    model = with_random_biases(tiny.model(family))
    examples = examples_of(model)
    values, outputs, raw, _ = watched(model, examples)
    for layer, (value, output) in enumerate(zip(values, outputs, strict=True)):
        parts = torch.einsum("ejhw,dhw->ehjd", value, head_columns(model, layer))  # f_h(x_j)
        total = torch.einsum("ehij,ehjd->eid", raw[:, layer], parts)
        bias = getattr(model.attention_outs[layer], "bias", None)
        total = total if bias is None else total + bias
        for row, words in enumerate(examples):  # rows of padding are nobody's
            n = len(words.ids)
            np.testing.assert_allclose(total[row, :n].detach(), output[row, :n].detach(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_normed_equals_a_plain_loop(family: str) -> None:
    model = tiny.model(family)
    values, _, raw, normed = watched(model, examples_of(model)[1:])
    assert normed.shape == raw.shape == (1, 2, 4, normed.shape[-1], normed.shape[-1])
    for layer in range(2):
        columns = head_columns(model, layer)
        for head in range(4):
            for key in range(raw.shape[-1]):
                size = float(torch.linalg.vector_norm(columns[:, head] @ values[layer][0, key, head]))
                want = raw[0, layer, head, :, key] * size
                np.testing.assert_allclose(normed[0, layer, head, :, key], want, rtol=1e-4, atol=1e-6)


def test_padding_changes_nothing_and_raw_is_the_attention() -> None:
    model = tiny.model("llama")
    examples = examples_of(model)
    raw, normed = normed_attention_of(model, examples)
    np.testing.assert_array_equal(raw, attention_of(model, examples))
    alone = normed_attention_of(model, examples[1:])[1][0]
    n = len(examples[1].ids)
    np.testing.assert_allclose(normed[1, :, :, :n, :n], alone, rtol=1e-4, atol=1e-5)


def test_a_family_whose_values_cannot_be_told_is_refused() -> None:
    model = tiny.model("bert")
    fused = dataclasses.replace(model.family, attention_in=("attention.self.value",))
    model = dataclasses.replace(model, family=fused)
    with pytest.raises(InputError, match="model type 'bert': where its value vectors stand"):
        normed_attention_of(model, examples_of(model))
