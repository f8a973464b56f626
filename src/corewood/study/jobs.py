"""What each kind of job does: read keys, work, write files into one new entry."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save_file

from corewood.analyse.core import core
from corewood.data.encode import encode
from corewood.data.labels import gold_classes
from corewood.data.read import drawn
from corewood.data.task import Split
from corewood.evaluate.ablate import ablate, without
from corewood.evaluate.attention import attention_map, head_scores, split_words
from corewood.evaluate.predict import logits_of
from corewood.model.finetune import fine_tune
from corewood.model.load import read_tokenizer
from corewood.model.reference import reference, sample_indices
from corewood.prune.l0 import State, l0_search
from corewood.spec import L0, FineTune
from corewood.store.store import Store
from corewood.study.job import Job
from corewood.study.jobs_lottery import (
    do_importance,
    do_magnitude,
    do_pattern_classifier,
    do_patterns,
    do_retrain,
    do_tickets,
    predict_weights,
)
from corewood.study.work import Progress, Work, read_data, read_masks, read_reference, write_logits, write_masks

SAVE_EVERY = 20.0  # seconds between the points a search can go on from


def execute(job: Job, store: Store, progress: Progress) -> None:
    """Do one job, unless another process has done it; its entry is there in the end."""
    with store.claim(job.key):
        if store.has(job.kind, job.key):
            return
        torch.set_num_threads(int(job.local.get("threads", 1)))
        started = time.monotonic()
        meta: dict[str, Any] = {"title": job.title, "params": job.params, "inputs": job.inputs, "work": job.work}
        with store.writing(job.kind, job.key, meta) as folder:
            meta |= KINDS[job.kind](Work(job, store, folder, progress)) or {}
            meta["seconds"] = round(time.monotonic() - started, 3)
        store.clear_scratch(job.key)


# one function per kind; what it returns goes into meta.json


def do_encode(work: Work) -> dict[str, Any]:
    split = read_data(work.input("data"))
    params = work.job.params
    tokenizer = read_tokenizer(work.job.local["source"], params["pad_token"], params["revision"])
    encoded = encode(split, tokenizer, params["max_length"])
    arrays = {"ids": encoded.ids, "offsets": encoded.offsets}
    if encoded.types is not None:
        arrays["types"] = encoded.types
    save_file(arrays, work.folder / "tokens.safetensors")
    notes = []
    if encoded.truncated:
        who = work.job.title.replace("encode ", "")
        notes.append(f"{who}: {encoded.truncated} of {len(split)} texts were cut to {params['max_length']} tokens")
    return {"pad_id": encoded.pad_id, "truncated": encoded.truncated, "notes": notes}


def do_fine_tune(work: Work) -> dict[str, Any]:
    params = work.job.params
    settings = FineTune(**params["settings"])
    split = read_data(work.input("data"))
    model = work.new_model(settings.seed, check=True)
    gold = gold_classes(model.labels, split)
    scratch = work.store.scratch(work.job.key)
    kept = fine_tune(model, work.encoded(), gold, settings, scratch, progress=work.progress)
    for step, folder in kept.items():  # linked, not moved: a kill before the entry is complete must lose nothing
        shutil.copytree(folder, work.folder / f"step-{step}", copy_function=link_or_copy)
    model.tokenizer.save_pretrained(work.folder / "tokenizer")
    return {}


def do_reference(work: Work) -> dict[str, Any]:
    encoded = work.encoded()
    chosen = sample_indices(len(encoded), work.job.params["sample"], work.job.params["seed"])
    found = reference(work.model(), encoded.take(chosen), work.progress)
    arrays = {
        "indices": chosen,
        "logits": found.logits,
        "head_means": found.means.heads.numpy(),
        "mlp_means": found.means.mlps.numpy(),
    }
    save_file(arrays, work.folder / "reference.safetensors")
    return {"tokens": found.means.tokens}


def do_search(work: Work) -> dict[str, Any]:
    params = work.job.params
    chosen, shared = read_reference(work.input("reference"))
    settings = L0(**params["settings"])
    scratch = work.store.scratch(work.job.key) / "state.safetensors"
    saved_at = time.monotonic()

    def save(state: State) -> None:
        nonlocal saved_at
        if time.monotonic() - saved_at > SAVE_EVERY:
            state.save(scratch)
            saved_at = time.monotonic()

    found = l0_search(
        work.model(),
        work.encoded().take(chosen),
        shared,
        settings,
        params["seed"],
        params["ablate"],
        work.progress,
        State.load(scratch) if scratch.exists() else None,
        save,
    )
    write_masks(found.masks, work.folder)
    save_file({"log_alpha": found.log_alpha}, work.folder / "log_alpha.safetensors")
    found.trajectory.to_parquet(work.folder / "trajectory.parquet", index=False)
    return {"units": [len(mask) for mask in found.masks], "held": list(found.held), "ended": list(found.ended)}


def do_predict(work: Work) -> dict[str, Any]:
    if "weights" in work.job.inputs:
        return predict_weights(work)
    model = work.model()
    masks, means = [model.units.full()], None
    if "search" in work.job.inputs:
        masks = read_masks(work.input("search"))
        means = read_reference(work.input("reference"))[1].means if "reference" in work.job.inputs else None
    stand_in = work.job.params.get("ablate", "mean")
    examples = work.encoded()
    logits: list[np.ndarray] = []
    for mask in masks:
        before = len(logits) * len(examples)

        def progress(done: int, total: int, before: int = before) -> None:
            work.progress(before + done, len(masks) * total)

        logits.append(logits_of(model, mask, examples, stand_in, means, progress=progress))
    write_logits(np.stack(logits), work.folder)
    return {"units": vars(model.units)}


def do_ablate(work: Work) -> dict[str, Any]:
    params, model = work.job.params, work.model()
    if "closed" in params:
        closed = [tuple(units) for units in params["closed"]]
    else:  # all pairs of the heads that every mask keeps, and all of these heads at once
        masks = [read_masks(work.input(f"search {name}"))[place] for name, place in params["core"].items()]
        heads = [name for name in core(masks, draws=1).mask.names if ".H" in name]
        closed = list(combinations(heads, 2)) + ([tuple(heads)] if len(heads) > 2 else [])
    rows = drawn(read_data(work.input("data")).frame, params["examples"], params["seed"])
    means = read_reference(work.input("reference"))[1].means
    variants = [without(model.units, units) for units in closed]
    logits = np.zeros((0, len(rows), len(model.labels)), np.float32)
    if variants:
        logits = ablate(model, variants, work.encoded().take(rows), params["ablate"], means, work.progress)
    write_logits(logits, work.folder)
    return {"closed": [list(units) for units in closed]}


def do_attention(work: Work) -> dict[str, Any]:
    params, model = work.job.params, work.model()
    split = read_data(work.input("data"))
    chosen = drawn(split.frame, params["examples"], params["seed"])
    examples = split_words(model, split, chosen)
    head_scores(model, examples, work.progress).to_parquet(work.folder / "scores.parquet", index=False)
    columns = [c for c in ("first", "second") if c in split.frame]
    shown = [(name, tuple(split.frame.loc[i, columns])) for name, i in to_show(split, params["maps"], params["focus"])]
    shown += [("", tuple(texts)) for texts in params["texts"]]
    maps = []
    arrays = {}
    for i, (name, texts) in enumerate(shown):
        one = attention_map(model, *texts)
        arrays[f"map-{i}"] = one.values.astype(np.float32)
        maps.append({"case": name, "texts": list(texts), "words": list(one.words), "sentence": one.sentence.tolist()})
    save_file(arrays, work.folder / "maps.safetensors")
    return {"maps": maps, "examples": len(examples)}


def to_show(split: Split, count: int, focus: Sequence[str]) -> list[tuple[str, int]]:
    """(case, example): the shortest example of each of the first cases; those in focus first."""
    letters = split.frame["first"].str.len() + (split.frame["second"].str.len() if "second" in split.frame else 0)
    if split.cases is None:
        return [("", int(i)) for i in letters.sort_values(kind="stable").index[:count]]
    names = list(dict.fromkeys([*focus, *split.cases]))
    return [(name, int(letters[split.cases == name].idxmin())) for name in names if (split.cases == name).any()][:count]


KINDS: Mapping[str, Callable[[Work], dict[str, Any]]] = {
    "encode": do_encode,
    "fine_tune": do_fine_tune,
    "reference": do_reference,
    "search": do_search,
    "predict": do_predict,
    "ablate": do_ablate,
    "attention": do_attention,
    "importance": do_importance,
    "magnitude": do_magnitude,
    "tickets": do_tickets,
    "retrain": do_retrain,
    "pattern_classifier": do_pattern_classifier,
    "patterns": do_patterns,
}


def link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copyfile(source, target)
