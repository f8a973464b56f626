"""Running a study from the terminal, and what stands there in the end."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Mapping, Sequence
from pathlib import Path

import typer

from corewood.cli.progress import listener
from corewood.cli.screen import Screen, aside
from corewood.cli.voice import Voice, emit
from corewood.report.page import finding
from corewood.spec import StudySpec
from corewood.store.store import Store
from corewood.study.deliver import deliver
from corewood.study.engines import Engine
from corewood.study.run import Outcome, chosen, report_study, run_study

POINTS = 2  # sentences below the headline; the others are in the report


def run_spec(
    spec: StudySpec,
    base: Path,
    store: Path,
    engine: Engine,
    out: Path,
    voice: Voice,
    show_page: bool = False,
    only: Sequence[str] = (),
) -> None:
    Store(store).check_possible()
    try:
        with listener(voice) as show:
            show.say("Reading the data and the model")
            outcome = run_study(spec, base, Store(store), engine, show, only)
    except KeyboardInterrupt:
        typer.echo("Stopped. Finished jobs are kept; the same command goes on from here.", err=True)
        sys.exit(130)
    mine = chosen(outcome.plan, only)
    failed = {key: reason for key, reason in outcome.holes.items() if key in mine}
    if failed:
        say_failed(outcome, failed, voice)
    if left := len(outcome.holes) - len(failed):
        typer.echo(f"{without_result(left)} yet, and {'is a hole' if left == 1 else 'are holes'} in the report.", err=True)
    conclude(outcome, deliver(outcome.report, out), voice, show_page)
    if failed:
        sys.exit(1)


def report_spec(spec: StudySpec, base: Path, store: Path, out: Path, voice: Voice, show_page: bool) -> None:
    with listener(voice) as show:
        outcome = report_study(spec, base, Store(store), show)
    if not outcome.complete:
        count = len(outcome.holes)
        typer.echo(f"{without_result(count)}: shown as {'a hole' if count == 1 else 'holes'}.", err=True)
    conclude(outcome, deliver(outcome.report, out), voice, show_page)


def without_result(count: int) -> str:
    return "1 job has no result" if count == 1 else f"{count} jobs have no result"


def say_failed(outcome: Outcome, failed: Mapping[str, str], voice: Voice) -> None:
    """Those that need one of them are counted."""
    console = aside(soft_wrap=True)
    console.print(f"{without_result(len(failed))}:", style="red")
    lost = {key: reason for key, reason in failed.items() if reason.startswith("needs ") and not voice.verbose}
    for key, reason in failed.items():
        if key not in lost:
            console.print(f"  {outcome.plan.jobs[key].title}: {reason}", markup=False)
    if lost:
        console.print(f"  and {len(lost)} that need one of these (--verbose lists them)")
    console.print("The report shows them as holes. The same command tries them again.")


def conclude(outcome: Outcome, page: Path, voice: Voice, show_page: bool) -> None:
    """The finding, and where the report is."""
    found = finding(outcome.tables, outcome.plan.checkpoint.name)
    link = page.resolve().as_uri()
    if voice.json:
        holes = [{"job": outcome.plan.jobs[key].title, "reason": reason} for key, reason in outcome.holes.items()]
        counts = {"jobs": len(outcome.plan.jobs), "computed": outcome.computed, "seconds": round(outcome.seconds, 1)}
        said = {"headline": found.headline, "points": found.points}
        emit("result", complete=outcome.complete, **said, report=str(page.resolve()), link=link, **counts, holes=holes)
    elif voice.quiet:
        typer.echo(link)
    else:
        console = Screen(highlight=False)
        if outcome.computed:
            console.print(f"{outcome.computed} jobs in {outcome.seconds:.0f} s.", style="dim")
        elif outcome.complete:
            console.print(f"Nothing to compute: every job was done ({outcome.seconds:.1f} s).", style="dim")
        console.print()
        console.print(found.headline, style="bold", markup=False)
        for point in found.points[:POINTS]:
            console.print(point, markup=False)
        console.print()
        console.print(f"Report: {link}", markup=False, soft_wrap=True)
    if show_page:
        webbrowser.open(link)
