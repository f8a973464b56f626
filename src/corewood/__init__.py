"""Corewood finds the subnetworks inside a fine-tuned language model and shows which of them still generalise.

import corewood as cw

task = cw.task(train=frame, validation=other, challenge={"hard": third})
model = cw.fine_tune("path-or-hub-id", task, steps=1000)
masks = cw.search(model, task, cw.L0(sparsity=0.5), seeds=6)
cw.predict(model, masks, task.challenge["hard"]).accuracy()
cw.core(masks)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from corewood.analyse.core import Core, core
    from corewood.analyse.effective import effective_size
    from corewood.analyse.generalisation import spread
    from corewood.analyse.overlaps import overlaps
    from corewood.analyse.stability import Stability, agreement, stability
    from corewood.data.encode import encode
    from corewood.data.named import task
    from corewood.data.task import Split, Task
    from corewood.errors import CorewoodError, InputError
    from corewood.evaluate.attention import AttentionMap, attention_map
    from corewood.evaluate.metrics import accuracy, score, wilson
    from corewood.evaluate.predict import Predictions, ablate, predict
    from corewood.model.gates import Gates, Means, gated
    from corewood.model.load import Model, load, wrap
    from corewood.model.mask import Mask, Masks, Units
    from corewood.model.mask_files import read_masks
    from corewood.model.reference import mean_activations
    from corewood.model.slim import slim
    from corewood.model.tune import fine_tune
    from corewood.model.weights import WeightMask, weights_masked
    from corewood.prune.importance import prune_units
    from corewood.prune.magnitude import prune_weights
    from corewood.prune.several import search
    from corewood.prune.tickets import super_tickets, unit_tickets, weight_tickets
    from corewood.report.attention import attention_map_chart
    from corewood.ship.export import export
    from corewood.spec import L0, FineTune, Importance, Magnitude, StudySpec, read_study
    from corewood.study.outcome import Outcome
    from corewood.study.run import run

_WHERE = {
    "Core": "analyse.core", "core": "analyse.core", "effective_size": "analyse.effective",
    "spread": "analyse.generalisation", "agreement": "analyse.stability", "stability": "analyse.stability",
    "overlaps": "analyse.overlaps", "Stability": "analyse.stability", "encode": "data.encode",
    "task": "data.named", "Split": "data.task",
    "Task": "data.task", "CorewoodError": "errors", "InputError": "errors", "accuracy": "evaluate.metrics",
    "ablate": "evaluate.predict", "AttentionMap": "evaluate.attention", "attention_map": "evaluate.attention",
    "attention_map_chart": "report.attention",
    "wilson": "evaluate.metrics", "Predictions": "evaluate.predict", "predict": "evaluate.predict",
    "fine_tune": "model.tune", "Gates": "model.gates", "Means": "model.gates", "gated": "model.gates",
    "Model": "model.load", "load": "model.load", "wrap": "model.load", "Mask": "model.mask", "Masks": "model.mask",
    "Units": "model.mask", "mean_activations": "model.reference", "search": "prune.several", "L0": "spec",
    "FineTune": "spec", "StudySpec": "spec", "read_study": "spec", "run": "study.run",
    "Importance": "spec", "Magnitude": "spec", "read_masks": "model.mask_files", "prune_units": "prune.importance",
    "prune_weights": "prune.magnitude", "score": "evaluate.metrics", "WeightMask": "model.weights",
    "weights_masked": "model.weights", "super_tickets": "prune.tickets", "unit_tickets": "prune.tickets",
    "weight_tickets": "prune.tickets", "slim": "model.slim", "Outcome": "study.outcome",
    "export": "ship.export",
}  # fmt: skip

__all__ = [
    "L0",
    "AttentionMap",
    "Core",
    "CorewoodError",
    "FineTune",
    "Gates",
    "Importance",
    "InputError",
    "Magnitude",
    "Mask",
    "Masks",
    "Means",
    "Model",
    "Outcome",
    "Predictions",
    "Split",
    "Stability",
    "StudySpec",
    "Task",
    "Units",
    "WeightMask",
    "ablate",
    "accuracy",
    "agreement",
    "attention_map",
    "attention_map_chart",
    "core",
    "effective_size",
    "encode",
    "export",
    "fine_tune",
    "gated",
    "load",
    "mean_activations",
    "overlaps",
    "predict",
    "prune_units",
    "prune_weights",
    "read_masks",
    "read_study",
    "run",
    "score",
    "search",
    "slim",
    "spread",
    "stability",
    "super_tickets",
    "task",
    "unit_tickets",
    "weight_tickets",
    "weights_masked",
    "wilson",
    "wrap",
]


def __getattr__(name: str) -> Any:
    """Names are looked up when first used: importing corewood does not import torch."""
    if name == "__version__":
        from importlib.metadata import version

        return version("corewood")
    if name == "LotterySpec":
        raise AttributeError("there is one kind of study now: cw.StudySpec, with tasks, prune and tickets")
    if name not in _WHERE:
        raise AttributeError(f"module 'corewood' has no attribute {name!r}")
    found = getattr(import_module(f"corewood.{_WHERE[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
