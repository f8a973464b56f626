"""The commands and their options. Heavy imports stand inside the commands: `--help` answers at once."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from corewood.errors import CorewoodError, InputError

if TYPE_CHECKING:
    from corewood.spec import StudySpec

app = typer.Typer(
    name="corewood",
    help="Find the subnetworks inside a fine-tuned language model, and see which of them still generalise.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog="Start with [bold]corewood demo[/bold]. Exit codes: 0 all done, 1 some jobs failed, 2 something to correct.",
)

Study = Annotated[Path, typer.Argument(help="The study file (YAML).", show_default=False)]
StoreFolder = Annotated[Path, typer.Option("--store", help="Where results are kept, and found again.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", help="Change a setting: key=value, for instance prune.l0.seeds=12. May be repeated."),
]
Presets = Annotated[
    list[str] | None, typer.Option("--preset", help="Apply a preset of the study file, before --set. May be repeated.")
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", min=1, help="Processes to run jobs in; 1 runs them in this one.", show_default="one per core"),
]
Out = Annotated[Path | None, typer.Option("--out", help="Folder for the report.", show_default="NAME-report in this folder")]
STORE = Path("corewood-store")
# bfloat16 against float32, in a process of its own: on machines that announce AMX but cannot use it, it dies of SIGILL
PROBE = """
import timeit, torch
torch.set_num_threads(1)
def seconds(kind):
    x = torch.randn(512, 512).to(kind)
    x @ x
    return timeit.timeit(lambda: x @ x, number=20)
print(seconds(torch.float32) / seconds(torch.bfloat16))
"""


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


@app.command()
def demo(store: StoreFolder = STORE, change: Changes = None, workers: Workers = None, out: Out = None) -> None:
    """Run the embedded study: a small BERT, a generated task with a shortcut, eight subnetworks."""
    from importlib.resources import files

    from corewood.spec import parse_study

    text = files("corewood.study").joinpath("demo.yaml").read_text(encoding="utf-8")
    run_spec(parse_study(text, "the embedded study", change), Path(), store, workers, out)


@app.command()
def run(
    study: Study,
    store: StoreFolder = STORE,
    preset: Presets = None,
    change: Changes = None,
    workers: Workers = None,
    out: Out = None,
) -> None:
    """Run a study, or go on with one that was stopped."""
    from corewood.spec import read_study

    run_spec(read_study(study, change, preset), study.parent, store, workers, out)


def run_spec(spec: StudySpec, base: Path, store: Path, workers: int | None, out: Path | None) -> None:
    from corewood.cli.progress import listener
    from corewood.store.store import Store
    from corewood.study.deliver import check_out, deliver
    from corewood.study.engines import cores, engine
    from corewood.study.run import run_study

    out = out or Path(f"{spec.name}-report")
    check_out(out)
    try:
        with listener() as show:
            show.say("Reading the data and the model")
            outcome = run_study(spec, base, Store(store), engine(workers or cores()), show)
    except KeyboardInterrupt:
        typer.echo("Stopped. Finished jobs are kept; the same command goes on from here.", err=True)
        sys.exit(130)
    page = deliver(outcome.report, out)
    if outcome.computed:
        typer.echo(f"{outcome.computed} jobs in {outcome.seconds:.0f} s.")
    else:
        typer.echo(f"Nothing to compute: every job was done ({outcome.seconds:.1f} s).")
    typer.secho(f"Report: {page}", bold=True)
    if not outcome.complete:
        typer.secho(f"{len(outcome.holes)} jobs have no result:", fg="red", err=True)
        for key, reason in outcome.holes.items():
            typer.echo(f"  {outcome.plan.jobs[key].title}: {reason}", err=True)
        typer.echo("The report shows them as holes. The same command tries them again.", err=True)
        sys.exit(1)


@app.command()
def plan(
    study: Study,
    store: StoreFolder = STORE,
    preset: Presets = None,
    change: Changes = None,
    workers: Workers = None,
    every: Annotated[bool, typer.Option("--jobs", help="List every job.")] = False,
    measure: Annotated[bool, typer.Option(help="Run a few steps of the model to estimate the time.")] = True,
) -> None:
    """Show what a study will do: its jobs, what is done, what is missing, what it will cost. Nothing is written."""
    from corewood.cli.progress import show_plan
    from corewood.spec import read_study
    from corewood.store.store import Store
    from corewood.study.engines import cores
    from corewood.study.plan import make_plan

    planned = make_plan(read_study(study, change, preset), study.parent)
    show_plan(planned, Store(store), workers or cores(), every, measure)


@app.command()
def report(study: Study, store: StoreFolder = STORE, preset: Presets = None, change: Changes = None, out: Out = None) -> None:
    """Write the report of a study from what is done: report.html, figures (SVG, PDF, PNG), tables (Parquet, CSV)."""
    from corewood.cli.progress import listener
    from corewood.spec import read_study
    from corewood.store.store import Store
    from corewood.study.deliver import deliver
    from corewood.study.run import report_study

    spec = read_study(study, change, preset)
    with listener() as show:
        outcome = report_study(spec, study.parent, Store(store), show)
    page = deliver(outcome.report, out or Path(f"{spec.name}-report"))
    typer.secho(f"Report: {page}", bold=True)
    if not outcome.complete:
        typer.echo(f"{len(outcome.holes)} jobs have no result and are shown as holes.", err=True)


@app.command()
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
        found.scores.to_csv(out, index=False, lineterminator="\n")
        typer.echo(f"Table: {out}")


@app.command()
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
        pairs.to_csv(out, index=False, lineterminator="\n")
        typer.echo(f"Pairs: {out}")


def check_new(out: Path | None) -> None:
    """Before any work: a file that is to be written must not be there, and its folder must."""
    if out is not None and out.exists():
        raise InputError(f"{out}: exists already; choose another name for --out")
    if out is not None and not out.parent.is_dir():
        raise InputError(f"{out}: there is no folder {out.parent}; make it first")


@app.command()
def doctor(store: StoreFolder = STORE) -> None:
    """Say what this machine has, which precision is safe and fast on it, and what is missing."""
    import platform
    import shutil
    from importlib.metadata import PackageNotFoundError, version

    import torch
    from rich.console import Console

    from corewood.model.load import minilm_folder
    from corewood.store.store import Store
    from corewood.study.engines import cores

    console = Console(highlight=False)
    problems = 0

    def line(good: bool | None, name: str, what: str) -> None:
        nonlocal problems
        problems += good is False
        mark = {True: "[green]ok[/green]  ", False: "[red]no[/red]  ", None: "    "}[good]
        console.print(f"{mark}{name:12} {what}")

    line(sys.version_info >= (3, 11), "Python", platform.python_version())
    for package in ("torch", "transformers", "datasets", "distributed", "altair", "vl-convert-python"):
        try:
            line(True, package, version(package))
        except PackageNotFoundError:
            line(False, package, f"not installed: pip install {package}")
    line(True, "cores", f"{cores()} for this process: a study runs {cores()} jobs side by side")
    if torch.cuda.is_available():
        line(True, "GPU", f"{torch.cuda.get_device_name(0)}; jobs use it with --workers 1")
    else:
        line(None, "GPU", "none; everything runs on the CPU")
    line(True, "float32", "safe everywhere; what Corewood uses")
    safe, what = probe()
    line(safe or None, "bfloat16", what)
    try:
        line(True, "minilm", str(minilm_folder()))
    except CorewoodError as problem:
        line(False, "minilm", str(problem))
    try:
        Store(store).check_writable()
        free = shutil.disk_usage(store).free / 2**30
        line(free > 2, "store", f"{store} can be written; {free:.0f} GiB free")
    except CorewoodError as problem:
        line(False, "store", str(problem))
    browser = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
    only = "only the project's own tests need one"
    line(None, "browser", f"{browser} ({only})" if browser else f"none found; {only}")
    if problems:
        raise SystemExit(1)


def main() -> None:
    try:
        app(prog_name="corewood")
    except CorewoodError as problem:
        typer.secho("error: ", fg="red", bold=True, nl=False, err=True)
        typer.echo(str(problem), err=True)
        sys.exit(2)


def probe() -> tuple[bool, str]:
    """(whether bfloat16 survives here, what was seen)"""
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=False)
    if done.returncode == -signal.SIGILL:
        return False, "kills the process here (SIGILL); ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 may avoid it"
    if done.returncode != 0:
        return False, f"does not work here (exit code {done.returncode})"
    return True, f"works; multiplies matrices at {float(done.stdout):.2g} times the speed of float32"
