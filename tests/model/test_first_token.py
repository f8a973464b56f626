"""Where the first token alone is read, the last layer computes it alone, and nobody can tell by the answers."""

from __future__ import annotations

import numpy as np
import pytest
import tiny
import torch
import transformers

from corewood.data.encode import encode
from corewood.data.overlap import overlap
from corewood.evaluate.predict import logits_of
from corewood.model.first_token import first_token
from corewood.model.gates import Gates, gated
from corewood.model.load import Model, wrap
from corewood.model.mask import Mask
from corewood.model.reference import reference
from corewood.model.slim import slimmed

TEXTS = overlap(seed=3, train=40, validation=24, per_case=2).validation
FIRST = {"bert", "roberta", "electra"}
MASK = Mask(np.array([[1, 0, 0, 1], [0, 1, 0, 0]]), np.array([1, 0]))
NO_HEADS = Mask(np.array([[1, 0, 0, 1], [0, 0, 0, 0]]), np.array([0, 1]))


def tokens_seen(model: Model, batch: dict[str, torch.Tensor]) -> list[int]:
    """By the MLP of each layer, in one call."""
    seen: list[int] = []
    handles = [out.register_forward_hook(lambda _m, args, _out: seen.append(args[0].shape[1])) for out in model.mlp_outs]
    model.net(**batch)
    for handle in handles:
        handle.remove()
    return seen


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_answers_and_gradients_stay(family: str) -> None:
    model = tiny.model(family)
    examples = encode(TEXTS, model.tokenizer, 64)
    batch = examples.batch(np.arange(len(examples)))
    length = batch["input_ids"].shape[1]
    means = reference(model, examples).means

    def both() -> tuple[torch.Tensor, torch.Tensor]:
        z = torch.tensor(MASK.vector, dtype=torch.float32).repeat(len(examples), 1).requires_grad_()
        with gated(model, Gates.from_vector(z, 2, 4), "mean", means):
            logits = model.net(**batch).logits
        return logits, torch.autograd.grad(logits[:, 0].sum(), z)[0]

    logits, slopes = both()
    with first_token(model):
        few_logits, few_slopes = both()
        seen = tokens_seen(model, batch)
    assert torch.allclose(few_logits, logits, atol=1e-5)
    assert torch.allclose(few_slopes, slopes, atol=1e-5)
    if family != "modernbert":  # takes padding out: its tokens have no batch
        assert seen == [length, 1 if family in FIRST else length]
        assert tokens_seen(model, batch) == [length, length]


@pytest.mark.parametrize("family", sorted(FIRST))
@pytest.mark.parametrize("mask", [MASK, NO_HEADS])
def test_slim_subnetworks_too(family: str, mask: Mask) -> None:
    model = tiny.model(family)
    examples = encode(TEXTS, model.tokenizer, 64)
    means = reference(model, examples).means
    batch = examples.batch(np.arange(len(examples)))
    with torch.inference_mode(), slimmed(model, mask, "mean", means) as call:
        want = call(**batch).logits
        with first_token(model):
            assert torch.allclose(call(**batch).logits, want, atol=1e-5)
    assert np.allclose(logits_of(model, mask, examples, "mean", means), want, atol=1e-5)


def test_padding_on_the_left_is_read_as_it_always_was() -> None:
    model = tiny.model("bert")
    batch = encode(TEXTS, model.tokenizer, 64).batch(np.arange(24))
    turned = {name: torch.flip(values, [1]) for name, values in batch.items()}
    with torch.inference_mode():
        want = model.net(**turned).logits
        with first_token(model):
            assert torch.allclose(model.net(**turned).logits, want, atol=1e-6)


def test_values_of_other_examples_need_all_tokens() -> None:
    model = tiny.model("bert")
    examples = encode(TEXTS, model.tokenizer, 64)
    batch = examples.batch(np.arange(len(examples)))
    with torch.inference_mode(), gated(model, MASK, "resample", seed=5):
        want = model.net(**batch).logits
    with torch.inference_mode(), first_token(model, "resample"), gated(model, MASK, "resample", seed=5):
        assert torch.equal(model.net(**batch).logits, want)


class MeanOfTokens(transformers.BertForSequenceClassification):  # type: ignore[misc]
    """A user's own: it reads all tokens."""

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, **_: object) -> object:
        hidden = self.bert(input_ids, attention_mask=attention_mask).last_hidden_state
        logits = self.classifier(hidden.mean(1))
        return transformers.modeling_outputs.SequenceClassifierOutput(logits=logits)


def test_a_class_of_ones_own_may_read_all_tokens() -> None:
    plain = tiny.model("bert")
    torch.manual_seed(1)
    model = wrap(MeanOfTokens(plain.net.config), plain.tokenizer)
    batch = encode(TEXTS, model.tokenizer, 64).batch(np.arange(8))
    with torch.inference_mode():
        want = model.net(**batch).logits
        with first_token(model):
            assert torch.equal(model.net(**batch).logits, want)


def test_feed_forward_in_chunks_of_tokens_is_left_alone() -> None:
    model = tiny.model("bert", chunk_size_feed_forward=4)
    ids = torch.randint(5, 50, (3, 8))
    with torch.inference_mode():
        want = model.net(input_ids=ids).logits
        with first_token(model):
            assert torch.equal(model.net(input_ids=ids).logits, want)
