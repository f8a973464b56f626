"""Fine-tuning with transformers' Trainer: checkpoints at chosen steps, exact resume, gates may be on.

The order of examples is laid out before training (length-bucketed, by seed), so that a resumed run sees exactly the
batches it would have seen. Trainer's own checkpoints go to a scratch folder and serve resuming only; what is kept is
the model at the chosen steps.
"""

from __future__ import annotations

import math
import shutil
import time
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch.utils.data import Dataset

from corewood.data.encode import Encoded, shuffled
from corewood.errors import InputError, JobError
from corewood.model.gates import Means, gated
from corewood.model.load import Model
from corewood.model.mask import Mask
from corewood.model.reference import Progress, no_progress
from corewood.model.rows import UsedRows, used_rows
from corewood.spec import Ablation, FineTune

COMPLETE = "complete"  # marks a resume point that was written to its end
RESUME_EVERY = 60.0  # seconds between resume points


class Ordered(Dataset[int]):
    """The training examples in the order they will be seen, as indices."""

    def __init__(self, encoded: Encoded, settings: FineTune) -> None:
        batches = islice(shuffled(encoded.lengths, settings.batch, settings.seed), settings.last)
        self.order = np.concatenate(list(batches))

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, place: int) -> int:
        return int(self.order[place])


class Keeper(transformers.TrainerCallback):  # type: ignore[misc]
    """Keeps the model at the chosen steps, leaves one complete resume point, watches the loss."""

    def __init__(
        self, model: Model, kept: dict[int, Path], steps: int, progress: Progress, rows: UsedRows | None = None
    ) -> None:
        self.model, self.kept, self.steps, self.progress, self.rows = model, kept, steps, progress, rows
        self.saved_at = time.monotonic()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        self.progress(state.global_step, self.steps)
        if state.global_step in self.kept:
            with self.rows.whole() if self.rows else nullcontext():
                save_model(self.model, self.kept[state.global_step])
        control.should_save = time.monotonic() - self.saved_at > RESUME_EVERY
        return control

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        if logs and not math.isfinite(logs.get("loss", 0.0)):
            raise JobError(f"fine-tuning: the loss is not a number at step {state.global_step}; lower fine_tune.learning_rate")

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        here = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        (here / COMPLETE).touch()
        for older in Path(args.output_dir).glob("checkpoint-*"):
            if older != here:
                shutil.rmtree(older)
        self.saved_at = time.monotonic()


def step_of(point: Path) -> int:
    return int(point.name.rpartition("-")[2])


def resume_point(folder: Path) -> Path | None:
    """The last complete one; half-written ones are removed."""
    points = sorted(folder.glob("checkpoint-*"), key=step_of)
    for broken in [p for p in points if not (p / COMPLETE).exists()]:
        shutil.rmtree(broken)
        points.remove(broken)
    return points[-1] if points else None


def as_targets(gold: np.ndarray, model: Model) -> torch.Tensor:
    """(example,) int64 classes, or float32 numbers for a model with one output."""
    outputs = len(model.labels)
    numbers = gold.dtype.kind == "f"
    if numbers and outputs != 1:
        raise InputError(
            f"model {model.name}: labels that are numbers need a model with one output, this one has {outputs}; "
            'load it with labels=("score",), new_head=True'
        )
    if not numbers and outputs == 1:
        raise InputError(f"model {model.name}: it has one output, and a class alone leaves nothing to learn; give two or more")
    return torch.from_numpy(gold.astype(np.float32) if numbers else gold)


def fine_tune(
    model: Model,
    train: Encoded,
    gold: np.ndarray,
    settings: FineTune,
    folder: Path,
    mask: Mask | None = None,
    ablate: Ablation = "mean",
    means: Means | None = None,
    progress: Progress = no_progress,
) -> dict[int, Path]:
    """Train in place. Returns step -> folder with the model at that step.

    `gold` is (example,): class indices, or numbers for a model with one output, which learns them by their squared error.
    `folder` is scratch: killed at any moment, the same call goes on from its last resume point to the same bits.
    """
    settings = settings.resolved(len(train))
    targets = as_targets(gold, model)
    folder.mkdir(parents=True, exist_ok=True)
    kept = {step: folder / f"step-{step}" for step in settings.kept}
    for part in folder.glob("step-*.part"):
        shutil.rmtree(part)
    last = resume_point(folder)
    if last is not None and any(step <= step_of(last) and not path.exists() for step, path in kept.items() if step):
        shutil.rmtree(last)  # a checkpoint from before it is lost: only training anew brings it back
        last = None
    if 0 in kept:
        save_model(model, kept[0])
    if not all(path.exists() for path in kept.values()):
        arguments = transformers.TrainingArguments(
            output_dir=str(folder),
            max_steps=settings.last,
            per_device_train_batch_size=settings.batch,
            learning_rate=settings.learning_rate,
            warmup_steps=settings.warmup,
            weight_decay=settings.weight_decay,
            lr_scheduler_type="linear",
            train_sampling_strategy="sequential",
            seed=settings.seed,
            save_strategy="no",
            logging_steps=1,  # every loss is looked at
            logging_nan_inf_filter=False,
            report_to="none",
            disable_tqdm=True,
            dataloader_pin_memory=False,
            remove_unused_columns=False,
            use_cpu=model.device.type == "cpu",
        )

        if arguments.n_gpu > 1:  # Trainer would spread each batch over all GPUs, and take one for each
            arguments._n_gpu = 1

        def collate(indices: list[int]) -> dict[str, torch.Tensor]:
            chosen = np.asarray(indices)
            return {**train.batch(chosen), "labels": targets[chosen]}

        gates = nullcontext() if mask is None else gated(model, mask, ablate, means, settings.seed)
        with gates, used_rows(model, train, settings.weight_decay) as rows:
            trainer = transformers.Trainer(
                model=model.net,
                args=arguments,
                train_dataset=Ordered(train, settings),
                data_collator=collate,
                callbacks=[Keeper(model, kept, settings.last, progress, rows)],
            )
            trainer.remove_callback(transformers.PrinterCallback)
            trainer.train(resume_from_checkpoint=str(last) if last else None)
    model.net.eval()
    return kept


def save_model(model: Model, folder: Path) -> None:
    """Config and weights, by way of a temporary name; what is there already is the same to the last bit."""
    if not folder.exists():
        part = folder.with_suffix(".part")
        model.net.save_pretrained(part)
        part.rename(folder)
