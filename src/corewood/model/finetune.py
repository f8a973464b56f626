"""Fine-tuning with transformers' Trainer: checkpoints at chosen steps, exact resume.

The order of examples is laid out before training (length-bucketed, by seed), so that a resumed run sees exactly the
batches it would have seen. Trainer's own checkpoints go to a scratch folder and serve resuming only; what is kept is
the model at the chosen steps.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor, nn
from transformers.trainer_utils import get_last_checkpoint

from corewood.data.encode import Encoded, shuffled
from corewood.errors import InputError, JobError
from corewood.model.load import Model
from corewood.model.precision import autocast, check_precision
from corewood.model.reference import Progress, no_progress
from corewood.seal import SEAL, seal, whole
from corewood.spec import FineTune

RESUME_EVERY = 60.0  # seconds between resume points


class UsedRows:
    """Training with those rows of the word embeddings that occur in the texts, and no others.

    A row whose token no training text holds gets a gradient of zero, and Adam without weight decay leaves it where it is: to
    leave it out changes nothing but the time. Of BERT-base's parameters a fifth are word embeddings, of a small model's half.
    Between `attach` and `detach` the embedding holds the used rows alone; ids are translated on their way into it.
    """

    def __init__(self, embedding: nn.Embedding, ids: np.ndarray) -> None:
        self.embedding, self.full, self.padding = embedding, embedding.weight, embedding.padding_idx
        used = np.union1d(ids, [] if self.padding is None else [self.padding]).astype(np.int64)
        self.used = torch.from_numpy(used).to(self.full.device)
        self.place = torch.full((len(self.full),), -1, device=self.full.device)  # id -> row; what is unused has none
        self.place[self.used] = torch.arange(len(used), device=self.full.device)
        self.some = nn.Parameter(self.full.detach()[self.used].clone())
        self.hook: Any = None

    def attach(self) -> None:
        self.embedding.weight = self.some
        self.embedding.padding_idx = None if self.padding is None else int(self.place[self.padding])
        self.hook = self.embedding.register_forward_pre_hook(lambda _module, args: self.place.to(args[0].device)[args[0]])

    def detach(self) -> None:
        self.hook.remove()
        with torch.no_grad():
            self.full.data = self.full.data.to(self.some.device)  # Trainer may have moved the model meanwhile
            self.full[self.used.to(self.some.device)] = self.some
        self.embedding.weight, self.embedding.padding_idx = self.full, self.padding


@contextmanager
def used_rows(model: Model, train: Encoded, weight_decay: float) -> Iterator[UsedRows | None]:
    """None where every row may change: with weight decay, or where the embedding is of a special kind or shared."""
    embedding: Any = model.net.get_input_embeddings()
    plain = type(embedding) is nn.Embedding and embedding.max_norm is None and not embedding.sparse
    shared = sum(p is embedding.weight for _, p in model.net.named_parameters(remove_duplicate=False)) > 1
    if weight_decay or not plain or shared:
        yield None
        return
    rows = UsedRows(embedding, np.append(train.ids, train.pad_id))
    rows.attach()
    try:
        yield rows
    finally:
        rows.detach()


@dataclass(eq=False)
class Keeper(transformers.TrainerCallback):  # type: ignore[misc]
    """Keeps the model at the chosen steps, leaves one complete resume point, watches the loss."""

    model: Model
    kept: dict[int, Path]
    steps: int
    progress: Progress
    rows: UsedRows | None
    watched: Sequence[int]
    look: Callable[[int], None]
    saved_at: float = field(default_factory=time.monotonic)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        step = state.global_step
        self.progress(step, self.steps)
        if step in self.kept or step in self.watched:
            if self.rows:
                self.rows.detach()  # the model as others know it
            if step in self.watched:  # first: a model that is kept is not trained again
                self.model.net.eval()
                self.look(step)
                self.model.net.train()
            if step in self.kept:
                save_model(self.model, self.kept[step])
            if self.rows:
                self.rows.attach()
        control.should_save = time.monotonic() - self.saved_at > RESUME_EVERY
        return control

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        if logs and not math.isfinite(logs.get("loss", 0.0)):
            raise JobError(f"fine-tuning: the loss is not a number at step {state.global_step}; lower fine_tune.learning_rate")

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        here = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        seal(here)
        for older in Path(args.output_dir).glob("checkpoint-*"):
            if older != here:
                shutil.rmtree(older)
        self.saved_at = time.monotonic()


class Trainer(transformers.Trainer):  # type: ignore[misc]
    """Autocast for the loss alone: what Trainer has of its own would stay on the model after training."""

    def __init__(self, precision: str, **given: Any) -> None:
        super().__init__(**given)
        self.precision = precision

    def compute_loss_context_manager(self) -> AbstractContextManager[Any]:
        return autocast(self.precision, self.args.device)


def resume_point(folder: Path, needed: Sequence[int], there: Callable[[int], bool], doubt: Callable[[str], None]) -> str | None:
    """The last that is whole. Others go, and so does one that is past a step whose results (`needed`) are not `there`."""
    for point in sorted(folder.glob("checkpoint-*")):
        number = point.name.rpartition("-")[2]
        lost = not number.isdecimal() or any(0 < early <= int(number) and not there(early) for early in needed)
        if (point / SEAL).exists() and not whole(point):
            doubt(f"what was saved at step {number} is damaged")
            lost = True
        if lost or not (point / SEAL).exists():  # the latter was stopped while it was written
            shutil.rmtree(point)
    last: str | None = get_last_checkpoint(str(folder))
    return last


def drop_damaged(kept: dict[int, Path], doubt: Callable[[str], None]) -> None:
    for step, path in kept.items():
        if path.exists() and not whole(path):
            doubt(f"the model at step {step} is damaged")
            shutil.rmtree(path)


def as_targets(gold: np.ndarray, model: Model) -> Tensor:
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
    progress: Progress = no_progress,
    look: Callable[[int], None] = lambda _step: None,
    looked: Callable[[int], bool] = lambda _step: True,
    doubt: Callable[[str], None] = lambda _what: None,
) -> dict[int, Path]:
    """Train in place. Returns step -> folder with the model at that step. `look` is called at the steps that are watched;
    `looked` says whether what it found is still there.

    `gold` is (example,): class indices, or numbers for a model with one output, which learns them by their squared error.
    `folder` is scratch: killed at any moment, the same call goes on from its last resume point to the same bits. What is
    damaged there is not gone on from, and `doubt` is told.
    """
    settings = settings.resolved(len(train))
    check_precision(settings.precision, model.device, "fine_tune.precision")
    targets = as_targets(gold, model)
    folder.mkdir(parents=True, exist_ok=True)
    kept = {step: folder / f"step-{step}" for step in settings.kept}
    for part in folder.glob("step-*.part"):
        shutil.rmtree(part)
    drop_damaged(kept, doubt)

    def there(step: int) -> bool:
        return (step not in kept or kept[step].exists()) and (step not in settings.watched or looked(step))

    needed = sorted({*kept, *settings.watched})
    last = resume_point(folder, needed, there, doubt)
    if 0 in kept:
        save_model(model, kept[0])
    if not all(map(there, needed)):
        arguments = transformers.TrainingArguments(
            output_dir=str(folder),
            max_steps=settings.last,
            per_device_train_batch_size=settings.batch // settings.accumulate,
            gradient_accumulation_steps=settings.accumulate,
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

        def collate(chosen: list[int]) -> dict[str, Tensor]:
            return {**train.batch(np.asarray(chosen)), "labels": targets[chosen]}

        batches = islice(shuffled(train.lengths, settings.batch, settings.seed), settings.last)
        with used_rows(model, train, settings.weight_decay) as rows:
            trainer = Trainer(
                settings.precision,
                model=model.net,
                args=arguments,
                train_dataset=np.concatenate(list(batches)).tolist(),  # indices, in the order they will be seen
                data_collator=collate,
                callbacks=[Keeper(model, kept, settings.last, progress, rows, settings.watched, look)],
            )
            trainer.remove_callback(transformers.PrinterCallback)
            if settings.accumulate > 1:
                trainer.model_accepts_loss_kwargs = False  # else the losses of a batch's parts are summed, not averaged
            try:
                trainer.train(resume_from_checkpoint=last)
            finally:
                model.net.eval()
    return kept


def save_model(model: Model, folder: Path) -> None:
    """Config and weights, by way of a temporary name; what is there already is the same to the last bit."""
    if not folder.exists():
        part = folder.with_suffix(".part")
        model.net.save_pretrained(part)
        seal(part)
        part.rename(folder)
