"""The jobs of a lottery: prune, draw tickets, retrain them, look at attention patterns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors.numpy import load_file, save_file
from safetensors.torch import load_file as load_tensors

from corewood.data.labels import gold_classes
from corewood.data.read import drawn
from corewood.errors import JobError
from corewood.evaluate.attention import split_words
from corewood.evaluate.patterns import Classifier, pattern_shares, train_classifier
from corewood.evaluate.predict import logits_of
from corewood.model.finetune import fine_tune
from corewood.model.load import Model, untrained
from corewood.model.slim import confined
from corewood.model.weights import WeightMask, trained_under, unit_shares, unit_weights, weights_masked
from corewood.prune.importance import importance_search
from corewood.prune.judge import unit_judge, weight_judge
from corewood.prune.magnitude import magnitude_search
from corewood.prune.tickets import super_tickets, unit_ticket, weight_ticket
from corewood.spec import FineTune
from corewood.spec_lottery import Importance, Magnitude
from corewood.store.store import Entry
from corewood.study.work import (
    Work,
    read_data,
    read_encoded,
    read_masks,
    read_reference,
    write_logits,
    write_masks,
)

WEIGHTS = "weights.safetensors"  # a mask of weights


def do_importance(work: Work) -> dict[str, Any]:
    params, model, examples = work.job.params, work.model(), work.encoded()
    settings = Importance(**params["settings"])
    gold = gold_classes(model.labels, read_data(work.input("data")))
    means = read_reference(work.input("reference"))[1].means if "reference" in work.job.inputs else None
    judge = unit_judge(model, examples, gold, params["metric"], settings.ablate, means)
    size = None
    if "like" in work.job.inputs:
        like = read_masks(work.input("like"))[0]
        size = int(like.heads.sum()), int(like.mlps.sum())
    found = importance_search(model, examples, gold, judge, settings, params["prune"], size, means, work.progress)
    write_masks([found.mask], work.folder)
    found.rounds.to_parquet(work.folder / "rounds.parquet", index=False)
    found.scores.to_parquet(work.folder / "scores.parquet", index=False)
    sized = size is not None or settings.sparsity is not None
    notes = remarks(work.job.title, len(found.mask), len(model.units), found.rounds, sized)
    return {"notes": notes, "units": vars(model.units)}


def do_magnitude(work: Work) -> dict[str, Any]:
    params, model, examples = work.job.params, work.model(), work.encoded()
    gold = gold_classes(model.labels, read_data(work.input("data")))
    judge = weight_judge(model, examples, gold, params["metric"])
    keep = None
    if "like" in work.job.inputs:
        keep = unit_weights(model, read_masks(work.input("like"))[0])
    settings = Magnitude(**params["settings"])
    found = magnitude_search(model, judge, settings, keep, work.progress)
    heads, mlps = unit_shares(model, found.mask)
    found.mask.save(work.folder / WEIGHTS)
    save_file({"heads": heads, "mlps": mlps}, work.folder / "shares.safetensors")
    found.rounds.to_parquet(work.folder / "rounds.parquet", index=False)
    sized = keep is not None or settings.sparsity is not None
    notes = remarks(work.job.title, len(found.mask), found.mask.total, found.rounds, sized)
    if not sized and len(found.rounds) > settings.most_rounds and found.rounds["passed"].iloc[-1]:
        notes.append(
            f"{work.job.title}: all {settings.most_rounds} rounds passed; most_rounds ended the search, and not the threshold"
        )
    return {"notes": notes, "weights": len(found.mask), "shared": len(found.mask), "total": found.mask.total}


def remarks(title: str, kept: int, total: int, rounds: pd.DataFrame, sized: bool) -> list[str]:
    """What a reader must know before trusting the result; `sized` where a size was asked for, and no threshold."""
    if sized:
        return [f"{title}: nothing is left at this size"] if kept == 0 else []
    full, said = float(rounds["score"].iloc[0]), []
    if np.isnan(full):
        said.append(f"{title}: the full model's score is not defined, so nothing can pass a threshold")
    elif full < 0:
        said.append(
            f"{title}: the full model scores {full:.3f}; a share of a score below zero is above it, and little can pass"
        )
    elif full == 0:
        said.append(f"{title}: the full model scores 0, so the threshold holds nothing back")
    if kept == 0:
        said.append(f"{title}: the whole model was pruned away and still passed; what is left is its embeddings and classifier")
    elif kept == total:
        said.append(f"{title}: nothing could be removed within the threshold; every ticket is the full model")
    return said


def do_tickets(work: Work) -> dict[str, Any]:
    """One ticket beside a good one; or the super-survivors and their counterparts, in the order good, random, bad."""
    params = work.job.params
    if params["what"] == "super-survivors":
        masks = super_tickets([read_masks(work.input(name))[0] for name in work.job.inputs], params["seed"])
        write_masks(list(masks.values()), work.folder)
        return {}
    which = params["ticket"], params["draw"], params["seed"]
    if params["what"] == "units":
        write_masks([unit_ticket(read_masks(work.input("found"))[0], *which)], work.folder)
        return {}
    good = read_weights(work.input("found"))
    ticket = weight_ticket(good, *which)
    ticket.save(work.folder / WEIGHTS)
    return {"weights": len(ticket), "shared": ticket.shared(good), "total": good.total}


def predict_weights(work: Work) -> dict[str, Any]:
    model, examples = work.model(), work.encoded()
    with weights_masked(model, read_weights(work.input("weights"))):
        logits = logits_of(model, model.units.full(), examples)
    write_logits(logits[None], work.folder)
    return {"units": vars(model.units)}


def do_retrain(work: Work) -> dict[str, Any]:
    """A ticket alone: pretrained weights (or none), the same new classifier and order of examples as its seed, and its mask."""
    params = work.job.params
    settings = FineTune(**params["settings"])
    split = read_data(work.input("data"))
    model = work.new_model(settings.seed)
    if params["untrained"]:
        model = untrained(model, settings.seed)
    entry = work.input("tickets")
    scratch = work.store.scratch(work.job.key)
    of_weights = (entry.folder / WEIGHTS).exists()
    held = trained_under(model, read_weights(entry)) if of_weights else confined(model, read_masks(entry)[params["place"]])
    with held:
        gold = gold_classes(model.labels, split)
        kept = fine_tune(model, work.encoded(), gold, settings, scratch, progress=work.progress)
        restore(model, kept[settings.kept[-1]])
        logits = {}
        for name in work.job.inputs:
            if name.startswith("encoded "):
                examples = read_encoded(work.input(name))
                logits[name.removeprefix("encoded ")] = logits_of(model, model.units.full(), examples)
    if not all(np.isfinite(values).all() for values in logits.values()):
        raise JobError(f"{work.job.title}: some logits are not numbers; lower fine_tune.learning_rate")
    save_file(logits, work.folder / "retrained.safetensors")
    return {}


def restore(model: Model, folder: Path) -> None:
    """What training left on disk: a job that was killed after training finds it there."""
    model.net.load_state_dict(load_tensors(folder / "model.safetensors"))
    model.net.eval()


def do_pattern_classifier(work: Work) -> dict[str, Any]:
    params, local = work.job.params, work.job.local
    annotated = None if local["annotated"] is None else Path(local["annotated"])
    classifier, quality = train_classifier(
        params["normed"], params["seed"], annotated, work.progress, maps=params["maps"], steps=params["steps"]
    )
    classifier.save(work.folder)
    quality.to_parquet(work.folder / "quality.parquet", index=False)
    return {}


def do_patterns(work: Work) -> dict[str, Any]:
    params = work.job.params
    model = work.model() if "fine_tune" in work.job.inputs else work.new_model(params["seed"])
    split = read_data(work.input("data"))
    chosen = drawn(split.frame, params["examples"], params["seed"])
    raw, normed = (Classifier.load(work.input(flavour).folder) for flavour in ("raw", "normed"))
    shares = pattern_shares(model, raw, normed, split_words(model, split, chosen), work.progress)
    shares.to_parquet(work.folder / "shares.parquet", index=False)
    return {"examples": len(chosen)}


def read_weights(entry: Entry) -> WeightMask:
    return WeightMask.load(entry.path(WEIGHTS))


def read_retrained(entry: Entry, dataset: str) -> np.ndarray:
    """(example, class)"""
    return load_file(entry.path("retrained.safetensors"))[dataset]
