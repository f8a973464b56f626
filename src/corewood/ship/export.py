"""A subnetwork as a folder to ship: written, read again, judged from the file, measured, and described."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
import transformers

from corewood.data.encode import Encoded, encode
from corewood.data.task import Task
from corewood.errors import CorewoodError, InputError
from corewood.evaluate.predict import logits_of
from corewood.model.checkpoint import quiet_transformers
from corewood.model.gates import Means, check_model
from corewood.model.load import Model
from corewood.model.mask import Mask, one_mask
from corewood.model.progress import Show, bar
from corewood.model.slim import subnetwork
from corewood.model.weights import WeightMask, weights_masked
from corewood.ship.card import write_card
from corewood.ship.folder import check_new, listed, new_folder
from corewood.ship.judge import CLOSE, FILE, INT8, Judged, cases_table, check_same, moved
from corewood.ship.measure import EXPORTED, FULL, Timing, measure
from corewood.ship.onnx_file import File, check_installed, write_int8, write_onnx, write_pt2
from corewood.ship.origin import Origin, base_in_memory
from corewood.ship.record import write_config, write_record, write_tokenizer
from corewood.ship.subject import Shipped, Subject, Wanted
from corewood.spec import Ablation
from corewood.study.models import CHALLENGE, IN_DOMAIN, IN_DOMAIN_TOO

if TYPE_CHECKING:
    from transformers import PreTrainedModel

SAMPLE = 256  # examples on which a drop-in model and a torch program are compared with the subnetwork
SHAPES = ((1, 1), (2, 7), (3, 24))  # random batches, (row, token), where there are no examples
Tell = Callable[[str], None]


def export(
    model: Model,
    mask: Mask | WeightMask,
    folder: str | Path,
    ablate: Ablation = "mean",
    means: Means | None = None,
    *,
    task: Task | None = None,
    name: str = "subnetwork",
    int8: bool = False,
    dropin: bool = False,
    formats: Sequence[str] = ("onnx",),
    measure: bool = True,
    progress: Show = True,
) -> Shipped:
    """Write a subnetwork as a folder to ship: an ONNX file without the closed units, config, tokenizer and a card.

    The file is read again and compared with the subnetwork: on every example of `task` where one is given, which the card then
    shows case by case, else on random tokens. `ablate` and `means` say what closed units give, as in `cw.gated`; a mask of
    weights gives full matrices with zeros. `int8` adds a quantised file and what it moves, `dropin` the original architecture
    with zeros in it, for AutoModel; `formats` may add "pt2", a torch program. Speed is measured with a task, if `measure`.

    Example:
        >>> shipped = cw.export(model, masks[0], "shipped", task=task, measure=False)
        >>> shipped
        <Shipped subnetwork: ... parameters, ... MB, in shipped>
        >>> sorted(path.name for path in shipped.folder.iterdir())
        ['README.md', 'config.json', 'corewood.json', 'onnx', 'tokenizer.json', 'tokenizer_config.json']
        >>> shipped.cases.columns.tolist()
        ['dataset', 'domain', 'case', 'n', 'metric', 'full', 'subnetwork', 'file']
    """
    check_model(model, "export")
    if not isinstance(mask, WeightMask):
        one_mask(mask, "export").check(model.units)
    if isinstance(formats, str):
        raise InputError(f"export: formats={formats!r}: give a list, for instance ['onnx', 'pt2']")
    wanted = Wanted(int8, dropin, tuple(formats), measure)
    check_ablation(ablate)
    check_installed()
    check_new(Path(folder))
    origin = Origin(**base_in_memory(model), made="as it was in memory")
    sets = tuple(judged(model, mask, ablate, means, task)) if task is not None else ()
    return ship(Subject(model, mask, ablate, name, origin, sets, means), Path(folder), wanted, progress=progress)


def check_ablation(ablate: Ablation | None) -> None:
    if ablate not in ("mean", "zero", None):
        why = "resampled values differ from token to token, which no file can hold; " if ablate == "resample" else ""
        raise InputError(f"export: ablate={ablate!r}: {why}choose mean or zero")


def judged(model: Model, mask: Mask | WeightMask, ablate: Ablation, means: Means | None, task: Task) -> list[Judged]:
    """The sets in domain and challenge sets of a task, as the full model and the subnetwork see them."""
    made = []
    sets = {"validation": (IN_DOMAIN, task.validation)} | {n: (IN_DOMAIN_TOO, split) for n, split in task.also.items()}
    sets |= {n: (CHALLENGE, split) for n, split in task.challenge.items()}
    for name, (domain, split) in sets.items():
        texts = encode(split, model.tokenizer, model.max_length)
        metric = task.metric if domain != CHALLENGE or split.regression else "accuracy"
        made.append(Judged(name, domain, split, texts, *full_and_own(model, mask, ablate, means, texts), metric))
    return made


def full_and_own(
    model: Model, mask: Mask | WeightMask, ablate: Ablation, means: Means | None, texts: Encoded
) -> tuple[np.ndarray, np.ndarray]:
    """Logits of the full model, and of the subnetwork."""
    whole = model.units.full()
    full = logits_of(model, whole, texts)
    if isinstance(mask, WeightMask):
        with weights_masked(model, mask):
            return full, logits_of(model, whole, texts)
    return full, logits_of(model, mask, texts, ablate, means)


def in_float32(subject: Subject) -> Subject:
    """What was judged in 16 bits is judged again: the file has 32, and other answers close to a tie."""
    model, own = subject.model, (subject.mask, subject.ablate, subject.means)
    if model.precision == "float32":
        return subject
    facts = {**subject.origin.facts, "Precision of the study": f"{model.precision}; judged here in float32"}
    exact = replace(model, precision="float32")
    sets = []
    for one in subject.sets:
        full, found = full_and_own(exact, *own, one.encoded)
        sets.append(replace(one, full=full, own=found))
    return replace(subject, model=exact, sets=tuple(sets), origin=replace(subject.origin, facts=facts))


def ship(subject: Subject, out: Path, wanted: Wanted, tell: Tell = lambda _line: None, progress: Show = False) -> Shipped:
    """Written whole or not at all."""
    check_installed()
    check_ablation(subject.ablate)
    quiet_transformers()
    subject = in_float32(subject)
    model, small = subject.model, subject.small()
    with new_folder(out) as folder:
        write_tokenizer(model, folder)
        write_config(model.net, folder)
        (folder / "onnx").mkdir()
        tell("Writing the ONNX file")
        path = folder / "onnx" / "model.onnx"
        exporter = write_onnx(small, subject.inputs, model.max_length, path)
        file = File(path)
        tell("Judging it on every example" if subject.sets else "Comparing it with the subnetwork")
        found = answers(file, subject, progress)
        apart = compare(subject, found, file)
        more = {FILE: found}
        if wanted.int8:
            tell("Quantising, and judging that")
            write_int8(path, path.with_name("model_quantized.onnx"))
            more[INT8] = answers(File(path.with_name("model_quantized.onnx")), subject, progress)
        write_more(subject, small, folder, wanted, tell)
        timings, full_bytes = timed(subject, small, folder, wanted, tell)
        shipped = Shipped(
            folder=out,
            name=subject.name,
            exporter=exporter,
            inputs=file.inputs,
            parameters=(model.net.num_parameters(), small.num_parameters()),
            cases=cases_table(subject.sets, model.labels, more),
            apart=apart,
            moved=moved(subject.sets, model.labels, found, more[INT8]) if wanted.int8 else pd.DataFrame(),
            timings=timings,
            full_bytes=full_bytes,
            files=listed(folder),
        )
        write_card(subject, shipped, folder)
        write_record(subject, shipped, folder)
    return shipped


def answers(file: File, subject: Subject, progress: Show) -> list[np.ndarray]:
    """Logits on every set."""
    found = []
    for one in subject.sets:
        with bar(f"judge {one.name}", progress) as told:
            found.append(file.logits(one.encoded, told))
    return found


def compare(subject: Subject, found: Sequence[np.ndarray], file: File) -> float:
    """The largest difference of a logit; on random tokens, where there are no examples."""
    if subject.sets:
        pairs = zip(subject.sets, found, strict=True)
        return max(check_same(one, logits, subject.model.labels, "onnx/model.onnx") for one, logits in pairs)
    worst, model = 0.0, subject.model
    rng = np.random.default_rng(0)
    words = model.net.get_input_embeddings().num_embeddings
    for rows, tokens in SHAPES:
        width = min(tokens, model.max_length)
        ids = torch.from_numpy(rng.integers(0, words, (rows, width)))
        batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "token_type_ids": torch.zeros_like(ids)}
        batch = {name: batch[name] for name in subject.inputs}
        with torch.inference_mode():
            want = called(subject, {name: value.to(model.device) for name, value in batch.items()})
        worst = max(worst, float(np.abs(file(batch) - want).max() / max(1.0, float(np.abs(want).max()))))
    if not worst <= CLOSE:
        raise CorewoodError(f"export: logits of the file are {worst:.1g} from the subnetwork's; nothing was written")
    return worst


def called(subject: Subject, batch: dict[str, torch.Tensor]) -> np.ndarray:
    """The subnetwork's own logits."""
    if isinstance(subject.mask, WeightMask):
        with weights_masked(subject.model, subject.mask):
            return np.asarray(subject.model(**batch).logits.float().cpu().numpy())
    with subnetwork(subject.model, subject.mask, subject.ablate, subject.means) as call:
        return np.asarray(call(**batch).logits.float().cpu().numpy())


def write_more(subject: Subject, small: PreTrainedModel, folder: Path, wanted: Wanted, tell: Tell) -> None:
    """A torch program and the drop-in model; a mask of weights is always written as the latter."""
    names = subject.inputs
    if "pt2" in wanted.formats:
        tell("Writing the torch program")
        write_pt2(small, names, subject.model.max_length, folder / "model.pt2")
        program = torch.export.load(folder / "model.pt2").module()
        check_sample(subject, "model.pt2", lambda batch: program(*(batch[name] for name in names)))
    if wanted.dropin or subject.of_weights:
        tell("Writing the drop-in model")
        whole = subject.whole()
        whole.config._name_or_path = ""
        whole.save_pretrained(folder / "dropin")
        write_config(whole, folder / "dropin")
        write_tokenizer(subject.model, folder / "dropin")
        again = transformers.AutoModelForSequenceClassification.from_pretrained(folder / "dropin", dtype=torch.float32)
        check_sample(subject, "dropin", lambda batch: again.eval()(**batch).logits)


def check_sample(subject: Subject, who: str, call: Callable[[dict[str, torch.Tensor]], torch.Tensor]) -> None:
    for one in subject.sets:
        rows = np.unique(np.linspace(0, len(one.split) - 1, SAMPLE).astype(int))
        some = one.encoded.take(rows)
        with torch.inference_mode():
            logits = in_batches(some, call)
        split = type(one.split)(one.split.name, one.split.frame.iloc[rows], one.split.labels, one.split.fold)
        check_same(Judged(one.name, one.domain, split, some, one.full[rows], one.own[rows]), logits, subject.model.labels, who)


def in_batches(examples: Encoded, call: Callable[[dict[str, torch.Tensor]], torch.Tensor]) -> np.ndarray:
    parts = np.array_split(np.arange(len(examples)), max(1, len(examples) // 32))
    return np.concatenate([call(examples.batch(rows)).float().numpy() for rows in parts])


def timed(subject: Subject, small: PreTrainedModel, folder: Path, wanted: Wanted, tell: Tell) -> tuple[list[Timing], int]:
    """Timings, and the bytes of the full model as an ONNX file. Zeros in full matrices are not timed: they save nothing."""
    if not wanted.measure or not subject.sets or subject.of_weights:
        return [], 0
    tell("Measuring: the full model and the file in turn")
    model = subject.model
    with TemporaryDirectory(dir=folder) as scratch:
        whole = Path(scratch) / "full.onnx"
        write_onnx(model.net, subject.inputs, model.max_length, whole)
        files = {FULL: whole, EXPORTED: folder / "onnx" / "model.onnx"}
        if wanted.int8:
            files[INT8] = folder / "onnx" / "model_quantized.onnx"
        net = deepcopy(model.net).cpu()
        return measure(net, small, files, subject.sets[0].encoded), sum(p.stat().st_size for p in Path(scratch).iterdir())
