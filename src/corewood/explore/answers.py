"""What the page asks of a model: each a run of steps that the worker takes one by one, and plain data in the end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.special import softmax

from corewood.data.encode import Encoded, encode, words_of
from corewood.data.labels import gold_classes
from corewood.data.task import Split
from corewood.errors import InputError
from corewood.evaluate.attention import MOST, attention_of, merged, normed_attention_of
from corewood.explore.sample import Part
from corewood.explore.worker import Steps
from corewood.model.gates import gated
from corewood.model.load import Model
from corewood.model.mask import Mask, Units
from corewood.model.resume import variants
from corewood.model.slim import subnetwork
from corewood.prune.importance import importance_scores
from corewood.spec import Ablation, Importance

ROUNDS = 5  # of measuring speed, full model and mask in turn
WORDS = 60  # that attention is shown of
TOKENS = 20  # of the text that a model's pace is measured on
BATCH = 16
DIGITS = 6


def mask_of(given: str, units: Units) -> Mask:
    if len(given) != len(units):
        raise InputError(f"a mask of {len(given)} units; this model has {len(units)}")
    return units.from_vector(np.array([unit == "1" for unit in given]))


def encoded(model: Model, texts: Sequence[str]) -> Encoded:
    if not any(text.strip() for text in texts):
        raise InputError("the text is empty: type one, or take an example")
    frame = pd.DataFrame({name: [text] for name, text in zip(("first", "second"), texts, strict=False)})
    return encode(Split("text", frame.assign(label=0.0), ()), model.tokenizer, model.max_length)


@torch.inference_mode()
def logits_on(model: Model, examples: Encoded, mask: Mask, ablate: Ablation) -> np.ndarray:
    """(class,) of one text; with gates: smaller parameters would have to be made anew for every click."""
    with gated(model, mask, ablate):
        logits = np.asarray(model(**examples.batch(np.arange(1), model.device)).logits[0].float().cpu().numpy())
    if not np.isfinite(logits).all():
        raise InputError("the model gives no number for this text: its weights are damaged, or too large for their precision")
    return logits


def chances(logits: np.ndarray) -> list[float]:
    """Probabilities of the classes, or the number that a model of numbers gives."""
    values = logits if logits.shape[-1] == 1 else softmax(logits.astype(np.float64), -1)
    return [round(float(v), DIGITS) for v in values]


def answer(model: Model, texts: Sequence[str], mask: Mask, ablate: Ablation, known: dict[Any, np.ndarray], key: Any) -> Steps:
    """Of the full model, from `known` where it is there, and of the mask."""
    yield 0, 1
    examples = encoded(model, texts)
    if key not in known:
        known[key] = logits_on(model, examples, model.units.full(), ablate)
    logits = logits_on(model, examples, mask, ablate)
    said = {"full": chances(known[key]), "now": chances(logits), "logits": [float(v) for v in logits]}
    longest = model.max_length if examples.truncated else None
    return {"classes": list(model.labels), **said, "tokens": len(examples.ids), "cut": longest}


def flips(model: Model, texts: Sequence[str], mask: Mask, ablate: Ablation) -> Steps:
    """What a click on each unit would do to this text: the change of the answer's probability, and the units that flip it.

    Layers below a unit are computed once for its layer.
    """
    units, examples = model.units, encoded(model, texts)
    before = logits_on(model, examples, mask, ablate)
    layer_of = [int(name[1:].partition(".")[0]) for name in units.names]
    after = np.zeros((len(units), len(before)))
    for layer in range(units.layers):
        chosen = np.flatnonzero(np.array(layer_of) == layer)
        clicked = [units.from_vector(mask.vector ^ (np.arange(len(units)) == place)) for place in chosen]
        after[chosen] = variants(model, clicked, examples, mask, ablate)[:, 0]
        yield layer + 1, units.layers
    if len(before) == 1:
        changes, flipped = after[:, 0] - before[0], np.zeros(len(units), bool)
    else:
        said = int(before.argmax())
        changes = softmax(after, -1)[:, said] - softmax(before.astype(np.float64))[said]
        flipped = after.argmax(-1) != said
    answers = [model.labels[place] for place in after.argmax(-1)]
    return {
        "answer": model.labels[int(before.argmax())],
        "changes": [round(float(change), DIGITS) for change in changes],
        "flips": [{"unit": int(place), "answer": answers[place]} for place in np.flatnonzero(flipped)],
    }


def attention(model: Model, texts: Sequence[str], mask: Mask, ablate: Ablation, layer: int, head: int, normed: bool) -> Steps:
    """One head's map over words; of a long text, over its first words."""
    yield 0, 1
    if layer >= model.units.layers or head >= model.units.heads:
        raise InputError(f"no head L{layer}.H{head}: the model has {model.units.layers} layers of {model.units.heads} heads")
    encoded(model, texts)  # or an error that says that it is empty
    words = words_of(model.tokenizer, texts, model.max_length)
    most = int((MOST / model.units.layers / model.units.heads) ** 0.5)  # all heads of all layers are held at once
    if len(words.ids) > most:
        raise InputError(f"a text of {len(words.ids):,} tokens: attention is shown of up to {most:,}; shorten it")
    with gated(model, mask, ablate):
        given = normed_attention_of(model, [words])[1] if normed else attention_of(model, [words])
    values = merged(words, given[0, layer, head].numpy())
    first = np.unique(words.word, return_index=True)[1]  # (word,) its first token
    return {
        "words": list(words.names[:WORDS]),
        "sentence": words.sentence[first][:WORDS].tolist(),
        "values": values[:WORDS, :WORDS].round(DIGITS).tolist(),
        "of": len(words.names),
    }


def speed(model: Model, texts: Sequence[str], mask: Mask, ablate: Ablation) -> Steps:
    """Milliseconds of the full model and of the mask on this text, in turn; the mask without its closed units, if it can be."""
    examples = encoded(model, texts)
    batch, taken = examples.batch(np.arange(1), model.device), {"full": list[float](), "now": list[float]()}
    for turn in range(ROUNDS + 1):  # the first warms up
        for who, own in (("full", model.units.full()), ("now", mask)):
            with torch.inference_mode(), subnetwork(model, own, ablate) as call:
                started = time.perf_counter()
                call(**batch).logits.cpu()  # waits for a GPU
                taken[who] += [time.perf_counter() - started] * bool(turn)
        yield turn + 1, ROUNDS + 1
    middle = {who: round(1000 * float(np.median(times)), 3) for who, times in taken.items()}
    return middle


def importance(model: Model, part: Part, ablate: Ablation) -> Steps:
    """(unit,) the mean |gradient| of its gate over examples with labels."""
    settings = Importance.model_validate({"ablate": ablate, "batch": BATCH})
    gold, total = gold_classes(model.labels, part.split), np.zeros(len(model.units))
    for start in range(0, len(gold), BATCH):
        rows = np.arange(start, min(start + BATCH, len(gold)))
        scores = importance_scores(model, model.units.full(), part.encoded.take(rows), gold[rows], settings, model.means)
        total += scores * len(rows)
        yield int(rows[-1]) + 1, len(gold)
    return {"values": [round(float(v), DIGITS) for v in total / len(gold)], "examples": len(gold)}


@torch.inference_mode()
def pace(model: Model, together: int) -> float:
    """Seconds of a text of usual length, so many at once: once to warm up, then the best of three."""
    ids = torch.full((together, min(TOKENS, model.max_length)), 5, device=model.device)
    times = []
    for _ in range(4):
        started = time.perf_counter()
        model.net(input_ids=ids, attention_mask=torch.ones_like(ids)).logits.cpu()
        times.append(time.perf_counter() - started)
    return min(times[1:]) / together
