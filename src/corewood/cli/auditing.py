"""`corewood audit`: what it guessed, and the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.markup import escape

from corewood.cli.progress import show_plan
from corewood.cli.running import run_spec
from corewood.cli.screen import aside, table
from corewood.cli.voice import Voice
from corewood.data.guess import Columns
from corewood.spec import parse_study
from corewood.spec.study import slug
from corewood.store.store import Store
from corewood.study.audit import Asked, Guess, Trial, confirm, guess, keep, kept, study_of, written
from corewood.study.engines import engine
from corewood.study.plan import make_plan
from corewood.study.processes import cores


def audit_and_run(
    asked: Asked,
    sparsity: Sequence[float],
    seeds: int,
    out: Path,
    store: Path,
    workers: int | None,
    voice: Voice,
    dry: bool,
    show_page: bool,
) -> None:
    """Guess, write the study file, and run that, or show its plan."""
    file = out.parent / f"{slug(out.name.removesuffix('-report'))}.yaml"
    found = guess(asked)
    show_guess(found, voice)
    text = written(study_of(found, file.parent, file.stem, sparsity, seeds), file.name)
    spec = parse_study(text, str(file))
    there = kept(text, file)
    show_trial(confirm(found), voice)  # each time: the files and the model may have changed
    if not there:  # what cannot be planned is not written; planned from here, for the file's folder may not be there yet
        here = written(study_of(found, Path(), file.stem, sparsity, seeds), file.name)
        make_plan(parse_study(here, str(file)), Path())
        keep(text, file)
    voice.event("study", file=str(file.resolve()))
    if not (voice.json or voice.quiet):
        aside().print(f"The study: {file}", markup=False)
    if dry:
        show_plan(make_plan(spec, file.parent), Store(store), workers or cores(), False, True, voice)
    else:
        run_spec(spec, file.parent, store, engine(workers), out, voice, show_page)


def show_guess(found: Guess, voice: Voice) -> None:
    files = {key: str(found.asked.files[key]) for key in found.files}
    facts = [{"key": key, "file": files[key], **facts_of(columns)} for key, columns in found.files.items()]
    voice.event("guess", classes=list(found.classes), files=facts, notes=found.notes)
    if voice.json or voice.quiet:
        return
    console = aside()
    shown = table(("", "file", "text", "label", "cases"), ("rows",))
    for key, columns in found.files.items():
        cells = [key.partition(".")[0], Path(files[key]).name, " + ".join(columns.text), columns.label, columns.case or "-"]
        shown.add_row(*map(escape, cells), f"{columns.rows:,}")
    console.print("Guessed (say otherwise with --text, --label, --case, --labels):")
    console.print(shown)
    unused = {Path(files[key]).name: columns.unused for key, columns in found.files.items() if columns.unused}
    if unused:
        left = "; ".join(f"{name}: {', '.join(columns)}" for name, columns in unused.items())
        console.print(f"Columns not used: {left}", markup=False, style="dim")
    console.print(f"Classes of the model: {', '.join(f'{i} {name}' for i, name in enumerate(found.classes))}", markup=False)
    for key, columns in found.files.items():
        if columns.labels or columns.fold:
            console.print(f"  {key}: {meaning(columns)}", markup=False)
    for note in found.notes:
        console.print(note, markup=False, style="yellow")


def facts_of(columns: Columns) -> dict[str, object]:
    maps: Mapping[str, object] = {"labels": dict(columns.labels), "fold": dict(columns.fold), "by": columns.by}
    return {"rows": columns.rows, "text": list(columns.text), "label": columns.label, "case": columns.case, **maps}


def meaning(columns: Columns) -> str:
    """Which label is taken for which class."""
    labels = [f"{value} is {name}" for value, name in columns.labels.items() if value != name]
    fold = [f"{name} counts as {value}" for name, value in columns.fold.items()]
    how = {"number": " (by their number)", "as said": " (as said)"}.get(columns.by, "")
    return ", ".join([*labels, *fold]) + how


def show_trial(trial: Trial, voice: Voice) -> None:
    voice.event("trial", examples=trial.examples, right=round(trial.right, 4))
    if not (voice.json or voice.quiet):
        aside().print(
            f"Tried: the model is right on {trial.right:.0%} of {trial.examples} validation examples, read like this."
        )
