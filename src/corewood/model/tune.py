"""Fine-tuning as a user calls it: a model and a task in, the tuned model out."""

from __future__ import annotations

from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Any

from corewood.data.encode import encode
from corewood.data.labels import classes_of, gold_classes, normal
from corewood.data.task import Task, one_task
from corewood.errors import InputError, SettingError
from corewood.model import finetune
from corewood.model.checkpoint import quiet_transformers
from corewood.model.gates import check_model
from corewood.model.load import Model, load
from corewood.model.progress import Show, bar
from corewood.spec import FineTune

OF_STUDIES = ("checkpoints", "watch", "threads")


def fine_tune(
    model: Model | str | PurePath, task: Task, steps: int | None = None, *, progress: Show = True, **settings: Any
) -> Model:
    """Train a classifier on a task's `train`, and give it back, ready for `cw.search` and `cw.predict`.

    `model` may be the name of a checkpoint, which gets a new head with the task's labels; a model that is loaded is trained
    further, in place. `settings` are those of `cw.FineTune`: epochs instead of steps, batch, learning_rate, warmup,
    weight_decay, accumulate, precision, seed. What it learnt is in memory; `model.save(folder)` keeps it.

    Example:
        >>> tuned = cw.fine_tune("path/to/checkpoint", task, steps=20, batch=8, learning_rate=1e-3)
        >>> tuned.labels
        ('entailment', 'non-entailment')
        >>> cw.predict(tuned, [], task.validation).full.shape
        (60, 2)
    """
    one_task(task, "fine_tune")
    if task.train is None:
        raise InputError(f"fine_tune: task {task.name!r} has no examples to learn from; give it some, cw.task(train=...)")
    for key in OF_STUDIES:
        if key in settings:
            raise InputError(f"fine_tune: {key} is a setting of studies, which keep models on the way; see cw.run")
    try:
        wanted = FineTune(steps=steps, **settings)
    except SettingError as problem:
        raise InputError(f"fine_tune{str(problem).removeprefix('FineTune')}") from None
    classes = classes_of(task)
    if isinstance(model, (str, PurePath)):
        model = load(model, labels=classes, seed=wanted.seed, new_head=True)
    check_model(model, "fine_tune")
    if {normal(name) for name in model.labels} != {normal(name) for name in classes}:
        raise InputError(
            f"fine_tune: the model's classes are {', '.join(model.labels)}, the task's {', '.join(classes)}; pass the name of "
            "its checkpoint instead, and it gets a new head"
        )
    quiet_transformers()
    examples, gold = encode(task.train, model.tokenizer, model.max_length), gold_classes(model.labels, task.train)
    model.means = None  # of the model as it was
    with bar("fine-tune", progress) as tell, TemporaryDirectory(prefix="corewood-") as scratch:
        finetune.fine_tune(model, examples, gold, wanted, Path(scratch), progress=tell)
    return model
