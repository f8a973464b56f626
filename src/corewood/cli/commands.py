"""The commands. Heavy imports stand inside them, after their first line: that and `--help` are there at once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from corewood.cli.net import guarded
from corewood.cli.options import (
    STORE,
    Changes,
    Gpus,
    Jobs,
    Json,
    OnCluster,
    Only,
    Open,
    Out,
    Partition,
    Presets,
    Quiet,
    StoreFolder,
    Study,
    Verbose,
    Walltime,
    Workers,
    pairs_of,
    sizes_of,
    words_of,
)
from corewood.cli.voice import Voice, quiet_hub
from corewood.errors import InputError
from corewood.study.processes import begin_imports
from corewood.untrusted import user_path, visible, why

if TYPE_CHECKING:
    from pandas import DataFrame

    from corewood.spec import StudySpec

app = typer.Typer(
    name="corewood",
    help="Find the subnetworks inside a fine-tuned language model, and see which of them still generalise.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog="Start with [bold]corewood demo[/bold], then [bold]corewood audit[/bold] on a model of your own. "
    "Exit codes: 0 all done, 1 some jobs failed, 2 something to correct, 70 something unforeseen, 130 stopped with Ctrl-C.",
)


def show_version(wanted: bool) -> None:
    if wanted:
        from corewood import __version__

        typer.echo(__version__)
        raise typer.Exit()


@app.callback()
def options(
    version: bool = typer.Option(False, "--version", callback=show_version, is_eager=True, help="Show the version and leave."),
) -> None:
    pass


def example(*lines: str) -> str:
    """What stands below a command's help."""
    return "\n\n".join(["For instance:", *(f"  [bold]{line}[/bold]" for line in lines)])


@app.command(epilog=example("corewood demo", "corewood demo --set prune.l0.seeds=2 --open"))
def demo(
    store: StoreFolder = STORE,
    change: Changes = None,
    workers: Workers = None,
    out: Out = None,
    show: Open = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Run the embedded study: a small BERT, a generated task with a shortcut, six subnetworks."""
    from importlib.resources import files

    voice = Voice(quiet, verbose, json)
    voice.first("The embedded study: a small BERT and a task with a shortcut")
    from corewood.spec import parse_study

    text = files("corewood.study").joinpath("demo.yaml").read_text(encoding="utf-8")
    spec = parse_study(text, "the embedded study", change)
    folder = report_folder(spec, out)
    begin_imports(workers)
    from corewood.cli.running import run_spec
    from corewood.study.engines import engine

    run_spec(spec, Path(), store, engine(workers), folder, voice, show)


@app.command(
    epilog=example(
        "corewood audit path/to/checkpoint --validation dev.csv --challenge hard.csv",
        "corewood audit textattack/bert-base-uncased-SST-2 --validation dev.tsv --challenge negation.csv --challenge typos.csv "
        "--text sentence --classes negative,positive --labels 0=negative,1=positive --sparsity 0.5",
    )
)
def audit(
    checkpoint: Annotated[str, typer.Argument(help="A fine-tuned classifier: a folder, or a hub id.", show_default=False)],
    validation: Annotated[Path, typer.Option(help="Examples like those it was trained on.", show_default=False)],
    challenge: Annotated[list[Path], typer.Option(help="Hard examples. May be repeated.", show_default=False)],
    train: Annotated[
        Path | None, typer.Option(help="Texts to search subnetworks on.", show_default="the validation texts")
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(help="The column of the text, or two: premise,hypothesis. Repeat it where files have others."),
    ] = None,
    label: Annotated[list[str] | None, typer.Option(help="The column of the label.")] = None,
    case: Annotated[list[str] | None, typer.Option(help="The column that splits challenge sets into cases, or none.")] = None,
    labels: Annotated[str | None, typer.Option(help="What labels mean: 0=negative,1=positive.")] = None,
    classes: Annotated[str | None, typer.Option(help="Names of the model's classes in its order, if it has none.")] = None,
    sparsity: Annotated[str, typer.Option(help="Which fractions of the heads and MLPs to remove.")] = "0.3,0.5,0.7",
    seeds: Annotated[int, typer.Option(min=1, help="Searches at each size.")] = 4,
    limit: Annotated[
        int | None, typer.Option(min=2, help="Judge on so many rows of each file, drawn evenly over cases.")
    ] = None,
    pad_token: Annotated[str | None, typer.Option(help="For decoders whose tokenizer has none.")] = None,
    store: StoreFolder = STORE,
    workers: Workers = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the report; the study file stands beside it.", show_default="NAME-audit-report"),
    ] = None,
    dry: Annotated[bool, typer.Option("--dry-run", help="Write the study file and show the plan; run nothing.")] = False,
    show: Open = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Audit a classifier of your own: do smaller versions of it still do on hard examples what the full one does?

    Guesses columns and labels, shows what it guessed, writes it into a study file and runs that. The same command goes on.
    """
    voice = Voice(quiet, verbose, json)
    voice.first(f"Looking at {checkpoint} and {1 + len(challenge) + (train is not None)} files")
    from corewood.study.deliver import check_out

    sizes, meanings = sizes_of(sparsity), pairs_of(labels)
    folder = out or Path(f"{user_path(checkpoint, key='CHECKPOINT').absolute().name}-audit-report")
    check_out(folder)
    if not dry:
        begin_imports(workers)
    from corewood.cli.auditing import audit_and_run
    from corewood.data.guess import Wanted
    from corewood.study.audit import Asked

    wanted = Wanted(tuple(map(words_of, text or ())), tuple(label or ()), tuple(case or ()), meanings)
    asked = Asked(checkpoint, validation, tuple(challenge), train, wanted, words_of(classes), pad_token, limit)
    audit_and_run(asked, sizes, seeds, folder, store, workers, voice, dry, show)


@app.command(
    epilog=example(
        "corewood run mine.yaml",
        "corewood run mine.yaml --only fine-tune",
        "corewood run mine.yaml --set prune.l0.seeds=12 --out report",
        "corewood run mine.yaml --cluster slurm --jobs 2:16 --walltime 2h --partition gpu --gpus 1",
    )
)
def run(
    study: Study,
    store: StoreFolder = STORE,
    preset: Presets = None,
    change: Changes = None,
    only: Only = None,
    workers: Workers = None,
    cluster: OnCluster = None,
    jobs: Jobs = None,
    walltime: Walltime = None,
    partition: Partition = None,
    gpus: Gpus = None,
    out: Out = None,
    show: Open = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Run a study, or go on with one that was stopped."""
    voice = Voice(quiet, verbose, json)
    voice.first(f"Reading {study}")
    from corewood.spec import read_study

    spec = read_study(study, change, preset)
    folder = report_folder(spec, out)
    from corewood.cli.where import Where

    where = Where(workers, cluster, {"jobs": jobs, "walltime": walltime, "queue": partition, "gpus": gpus})
    if cluster is None:
        begin_imports(workers)
    from corewood.cli.running import run_spec

    run_spec(spec, study.parent, store, where.engine(), folder, voice, show, only or ())


def report_folder(spec: StudySpec, out: Path | None) -> Path:
    """Where the report goes, if it may: asked before anything is loaded."""
    from corewood.study.deliver import check_out

    folder = out or Path(f"{spec.name}-report")
    check_out(folder)
    return folder


@app.command(
    epilog=example(
        "corewood new mine",
        "corewood new mine --model path/to/checkpoint --validation dev.csv --challenge hard.csv --seeds 6",
    )
)
def new(
    folder: Annotated[Path, typer.Argument(help="Where study.yaml goes; made if it is not there.")] = Path(),
    model: Annotated[str | None, typer.Option(help="A folder, a hub id, or minilm (the embedded one).")] = None,
    validation: Annotated[Path | None, typer.Option(help="Without it, the study has the embedded task.")] = None,
    challenge: Annotated[list[Path] | None, typer.Option(help="Hard examples. May be repeated.")] = None,
    train: Annotated[Path | None, typer.Option(help="Examples to fine-tune and to search on.")] = None,
    steps: Annotated[int | None, typer.Option(min=0, help="Of fine-tuning; 0: the checkpoint as it is.")] = None,
    text: Annotated[list[str] | None, typer.Option(help="As for audit, which also says label, case and labels.")] = None,
    label: Annotated[list[str] | None, typer.Option()] = None,
    case: Annotated[list[str] | None, typer.Option()] = None,
    labels: Annotated[str | None, typer.Option()] = None,
    classes: Annotated[str | None, typer.Option(help="Names of the model's classes in its order, if it has none.")] = None,
    pad_token: Annotated[str | None, typer.Option(help="For decoders whose tokenizer has none.")] = None,
    sparsity: Annotated[str | None, typer.Option(help="Which fractions of the heads and MLPs to remove.")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Searches at each size.")] = None,
) -> None:
    """Write a commented study file to begin with. Asks what the options do not say; nothing is overwritten."""
    from corewood.cli.beginning import Answers, ask, write_study

    given = Answers(model, validation, tuple(challenge or ()), train, steps, sparsity, seeds, words_of(classes), pad_token)
    path = folder / "study.yaml"
    answers = ask(path, given)
    typer.echo("Looking at the files", err=True) if answers.validation else None
    from corewood.data.guess import Wanted

    wanted = Wanted(tuple(map(words_of, text or ())), tuple(label or ()), tuple(case or ()), pairs_of(labels))
    write_study(path, answers, wanted)
    typer.echo(f"{path}: written. Next: corewood plan {path}")


@app.command(
    epilog=example(
        "corewood plan mine.yaml",
        "corewood plan mine.yaml --list --no-measure",
        "corewood plan mine.yaml --cluster slurm --jobs 16 --walltime 2h",
    )
)
def plan(
    study: Study,
    store: StoreFolder = STORE,
    preset: Presets = None,
    change: Changes = None,
    only: Only = None,
    workers: Workers = None,
    cluster: OnCluster = None,
    jobs: Jobs = None,
    walltime: Walltime = None,
    partition: Partition = None,
    gpus: Gpus = None,
    every: Annotated[bool, typer.Option("--list", help="List every job.")] = False,
    measure: Annotated[bool, typer.Option(help="Run a few steps of the model to estimate the time.")] = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say no more than how many jobs there are to do.")] = False,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Show what a study will do: its jobs, what is done, what is missing, what it will cost. Nothing is written."""
    voice = Voice(quiet, verbose, json)
    voice.first(f"Reading {study}")
    from corewood.spec import read_study
    from corewood.store.store import Store

    spec = read_study(study, change, preset)
    Store(store).check_possible()
    from corewood.cli.where import Where

    where = Where(workers, cluster, {"jobs": jobs, "walltime": walltime, "queue": partition, "gpus": gpus})
    batch = where.batch() if cluster is not None else None
    if batch is not None and not measure:
        raise InputError("--cluster, --no-measure: what to ask of a cluster is told from what is measured; leave one out")
    from corewood.cli.progress import show_plan
    from corewood.study.plan import make_plan
    from corewood.study.processes import cores

    made = make_plan(spec, study.parent, None if batch is None else bool(batch.gpus))
    show_plan(made, Store(store), workers or cores(), every, measure, voice, batch, only or ())


@app.command(epilog=example("corewood report mine.yaml --out mine-report --open"))
def report(
    study: Study,
    store: StoreFolder = STORE,
    preset: Presets = None,
    change: Changes = None,
    out: Out = None,
    show: Open = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write the report of a study from what is done: report.html, figures (SVG, PDF, PNG), tables (Parquet, CSV)."""
    voice = Voice(quiet, False, json)
    voice.first(f"Reading {study}")
    from corewood.spec import read_study

    spec = read_study(study, change, preset)
    folder = report_folder(spec, out)
    from corewood.cli.running import report_spec

    report_spec(spec, study.parent, store, folder, voice, show)


@app.command(
    epilog=example(
        "corewood export mine.yaml --out shipped", "corewood export mine.yaml l0-50-s3 --out shipped --int8 --dropin"
    )
)
def export(
    study: Study,
    subnetwork: Annotated[
        str | None, typer.Argument(help="Which to export, by its name.", show_default="the one that the report recommends")
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="A new folder.", show_default=False)] = ...,  # type: ignore[assignment]
    int8: Annotated[bool, typer.Option("--int8", help="Also as int8, and what that moves, case by case.")] = False,
    dropin: Annotated[
        bool, typer.Option("--dropin", help="Also in the original architecture, for AutoModel; not faster.")
    ] = False,
    formats: Annotated[str, typer.Option(help="onnx, or onnx,pt2: a torch program beside it.")] = "onnx",
    measure: Annotated[bool, typer.Option(help="Measure its speed beside the full model's.")] = True,
    task: Annotated[str | None, typer.Option(help="Where a study has several: which one's subnetwork.")] = None,
    tuning: Annotated[int | None, typer.Option(help="Where a model is fine-tuned with several seeds: which one's.")] = None,
    store: StoreFolder = STORE,
    preset: Presets = None,
    change: Changes = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but where the files are.")] = False,
    json: Json = False,
) -> None:
    """Write a subnetwork as a smaller model to ship: ONNX, with a card of numbers from the file itself."""
    voice = Voice(quiet, False, json)
    voice.first(f"Reading {study}")
    from corewood.spec import read_study

    spec = read_study(study, change, preset)
    from corewood.cli.exporting import export_from
    from corewood.ship.subject import Wanted

    wanted = Wanted(int8, dropin, words_of(formats), measure)
    export_from(spec, study.parent, store, (subnetwork, task, tuning), out, wanted, voice)


@app.command(epilog=example("corewood explore mine.yaml", "corewood explore path/to/checkpoint --port 8000 --no-browser"))
def explore(
    what: Annotated[
        str,
        typer.Argument(metavar="STUDY|CHECKPOINT", help="A study file that has been run, or a classifier.", show_default=False),
    ],
    store: StoreFolder = STORE,
    preset: Presets = None,
    change: Changes = None,
    classes: Annotated[str | None, typer.Option(help="Of a checkpoint: names of its classes in order, if it has none.")] = None,
    pad_token: Annotated[str | None, typer.Option(help="Of a checkpoint: for decoders whose tokenizer has none.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where the page is; 0: any free port.")] = 0,
    host: Annotated[str, typer.Option(help="Another address lets other machines in.")] = "127.0.0.1",
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")] = True,
) -> None:
    """Open a page on this machine where heads are clicked on and off, and watch what the model does. Ctrl-C stops it."""
    study = Path(what).suffix.lower() in (".yaml", ".yml")
    others = {"--classes": classes, "--pad-token": pad_token} if study else {"--set": change, "--preset": preset}
    misplaced = ", ".join(option for option, value in others.items() if value)
    if misplaced:
        raise InputError(f"{misplaced}: of a {'checkpoint' if study else 'study'}, and {what} is none; leave it out")
    Voice().first(f"Reading {what} and what is in the store" if study else f"Loading {what}")
    from corewood.cli.exploring import checkpoint_subject, serve, study_subject

    if study:
        subject = study_subject(Path(what), store, change, preset)
    else:
        subject = checkpoint_subject(what, words_of(classes), pad_token)
    serve(subject, host, port, browser)


@app.command(epilog=example("corewood compare one.yaml other.yaml", "corewood compare one.yaml one.yaml --set-b ablate=zero"))
def compare(
    one: Annotated[Path, typer.Argument(help="A study file that has been run.", show_default=False)],
    other: Annotated[Path, typer.Argument(help="Another; tasks and datasets are matched by name.", show_default=False)],
    store: StoreFolder = STORE,
    preset_a: Annotated[list[str] | None, typer.Option(help="A preset of the first study. May be repeated.")] = None,
    preset_b: Annotated[list[str] | None, typer.Option(help="A preset of the second. May be repeated.")] = None,
    set_a: Annotated[list[str] | None, typer.Option(help="A change to the first study: key=value. May be repeated.")] = None,
    set_b: Annotated[list[str] | None, typer.Option(help="A change to the second. May be repeated.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Also write the table to this CSV file, which must not exist.")
    ] = None,
) -> None:
    """Put two studies beside each other: full models case by case with an interval, means of their subnetworks, and masks."""
    from corewood.cli.comparison import say_comparison
    from corewood.spec import read_study
    from corewood.store.store import Store
    from corewood.study.compare import compare

    check_new(out)
    specs = read_study(one, set_a, preset_a), read_study(other, set_b, preset_b)
    found = compare(*specs, (one.parent, other.parent), Store(store))
    say_comparison([f"A: {specs[0].name} ({one})", f"B: {specs[1].name} ({other})"], found)
    if out is not None:
        write_table(found.scores if len(found.scores) else found.masks, out, "Table")


@app.command(epilog=example("corewood agree masks/", "corewood agree a.npy b.npy --out pairs.csv"))
def agree(
    masks: Annotated[
        list[Path], typer.Argument(help="Mask files (.npy, .json, .safetensors), or folders of them.", show_default=False)
    ],
    mlps: Annotated[bool, typer.Option("--mlps", help="The last column of an .npy is the MLP.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Also write the table of pairs to this CSV file, which must not exist.")
    ] = None,
) -> None:
    """Say how far masks keep the same heads and MLPs: over all of them and pair by pair, beside random masks."""
    from corewood.cli.agreement import say_agreement

    check_new(out)
    pairs = say_agreement(masks, mlps, out)
    if out is not None:
        write_table(pairs, out, "Pairs")


def check_new(out: Path | None) -> None:
    """Before any work: a file that is to be written must not be there, and its folder must."""
    if out is not None and user_path(out, key="--out").exists():
        raise InputError(f"{out}: exists already; choose another name for --out")
    if out is not None and not out.parent.is_dir():
        raise InputError(f"{out}: there is no folder {out.parent}; make it first")


def write_table(table: DataFrame, out: Path, what: str) -> None:
    from corewood.report.cells import write_csv

    try:
        write_csv(table, out)
    except OSError as problem:
        raise InputError(f"{out}: cannot be written ({why(problem)}); choose another --out") from None
    typer.echo(f"{what}: {visible(str(out))}")


@app.command(epilog=example("corewood schema > study.schema.json"))
def schema() -> None:
    """Print the JSON schema of the study file, by which editors complete and check it."""
    from corewood.spec.schema import schema_text

    typer.echo(schema_text(), nl=False)


cluster_app = typer.Typer(help="Batch systems: write a file for one, and try it.", no_args_is_help=True)
app.add_typer(cluster_app, name="cluster", rich_help_panel="Commands")


@cluster_app.command("new", epilog=example("corewood cluster new slurm.yaml"))
def cluster_new(
    file: Annotated[Path, typer.Argument(help="What to write; must not exist.")] = Path("slurm.yaml"),
    system: Annotated[str, typer.Option(help="slurm, pbs, lsf or sge.")] = "slurm",
) -> None:
    """Write a commented file of a batch system to begin with."""
    from corewood.spec.cluster import write_template

    write_template(file, system)
    typer.echo(f"{file}: written. Next: corewood cluster check {file}")


@cluster_app.command("check", epilog=example("corewood cluster check slurm.yaml --store /shared/me/corewood-store"))
def cluster_check(
    cluster: Annotated[str, typer.Argument(help="A file, a system (slurm), or an address (tcp://host:port).")],
    store: StoreFolder = STORE,
    walltime: Walltime = None,
    partition: Partition = None,
    gpus: Gpus = None,
) -> None:
    """Submit one small job, and say in plain words what works."""
    from corewood.cli.where import Where

    where = Where(None, cluster, {"walltime": walltime, "queue": partition, "gpus": gpus})
    typer.echo(f"Trying {cluster}", err=True)
    from corewood.cli.cluster import check

    if not check(where, store):
        raise SystemExit(1)


@app.command(epilog=example("corewood doctor"))
def doctor(store: StoreFolder = STORE) -> None:
    """Say what this machine has, which precision is safe and fast on it, and what is missing."""
    from corewood.cli.doctor import examine

    if not examine(store):
        raise SystemExit(1)


def at_home(word: str) -> str:
    """`--store=~/results`: shells leave a ~ after = as it is."""
    option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    return f"{option}{equals}{user_path(value)}" if value.startswith("~") else word


def main() -> None:
    quiet_hub()
    guarded(lambda: app([at_home(word) for word in sys.argv[1:]], prog_name="corewood"))
