"""What the scripts that decide the papers' claims share: a claim and its rule, what a model says on it, the table and the
picture of all."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd
from pictures import save

from corewood.report.style import GREENS, GREY, INK, MARK, PALE

YES, NO, UNDECIDED = "yes", "no", "undecided"
COLOURS = {YES: GREENS[4], NO: MARK, UNDECIDED: GREY}
SHAPES = {YES: "circle", NO: "diamond", UNDECIDED: "square"}


@dataclass(frozen=True)
class Mark:
    """A number that decides, and its interval where it has one."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Found:
    """What a model says on a claim; neither yes nor no is undecided."""

    number: str
    yes: bool
    no: bool
    marks: tuple[Mark, ...] = ()

    @property
    def verdict(self) -> str:
        return YES if self.yes else NO if self.no else UNDECIDED


@dataclass(frozen=True)
class Claim:
    """`yes` and `no` are the parts of the axis where the deciding number says so, as far as it alone decides."""

    words: str
    decide: Callable[[Any], Found]
    axis: str
    ends: tuple[float, float]
    yes: tuple[float, float]
    no: tuple[float, float]
    log: bool = False


def some(rows: pd.DataFrame, what: str) -> pd.DataFrame:
    """Raises KeyError where there are none: nothing is decided by what was not run."""
    if rows.empty:
        raise KeyError(what)
    return rows


def report_tables(report: Path) -> dict[str, pd.DataFrame]:
    return {path.stem: pd.read_parquet(path) for path in (report / "tables").glob("*.parquet")}


def in_markdown(table: pd.DataFrame) -> str:
    rows = [list(table.columns), ["---"] * len(table.columns), *table.astype(str).to_numpy().tolist()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def judged(claims: Mapping[str, Claim], subjects: Sequence[Any]) -> pd.DataFrame:
    """Prints what each subject says on each claim, and what all say together; gives the marks."""
    print("| | of | number | verdict |\n|---|---|---|---|")
    marks = []
    for number, claim in claims.items():
        found = []
        for subject in subjects:
            try:
                found.append(claim.decide(subject))
            except KeyError as missing:
                print(f"| {number} | {subject.name} | not asked: no table {missing} | |")
                continue
            print(f"| {number} | {subject.name} | {found[-1].number} | {found[-1].verdict} |")
            marks += [{"claim": number, "of": subject.name, "verdict": found[-1].verdict, **vars(m)} for m in found[-1].marks]
        together = {one.verdict for one in found}
        verdict = together.pop() if len(together) == 1 and len(found) == len(subjects) else UNDECIDED
        print(f"| {number} | **{claim.words}** | | **{verdict}** |")
    return pd.DataFrame(marks, columns=["claim", "of", "verdict", "value", "low", "high"])


def picture(claims: Mapping[str, Claim], marks: pd.DataFrame, subjects: Sequence[Any]) -> Any:
    """A strip per claim: what would have said yes (green) and no (red), and what each model said."""
    shown = {number: claim for number, claim in claims.items() if (marks["claim"] == number).any()}
    strips = [strip(number, claim, marks[marks["claim"] == number], subjects) for number, claim in shown.items()]
    return alt.concat(*strips, columns=2, spacing=14).resolve_scale(color="shared", shape="shared")


def strip(number: str, claim: Claim, marks: pd.DataFrame, subjects: Sequence[Any]) -> Any:
    names = [subject.name for subject in subjects]
    scale = {"type": "log" if claim.log else "linear", "domain": list(claim.ends), "nice": False, "clamp": True}
    x = alt.X("value:Q", title=claim.axis, scale=scale, axis={"tickCount": 5, "grid": False})
    y = alt.Y("of:N", title=None, scale={"domain": names})
    areas = pd.DataFrame([{"from": low, "to": high, "says": says} for says, (low, high) in ((YES, claim.yes), (NO, claim.no))])
    bands = alt.Chart(areas).mark_rect(opacity=0.16)
    bands = bands.encode(
        x=alt.X("from:Q", scale=scale, title=claim.axis),
        x2="to:Q",
        color=alt.Color("says:N", scale={"domain": list(COLOURS), "range": list(COLOURS.values())}, legend=None),
    )
    told, sure = alt.Chart(marks), alt.Chart(marks.dropna(subset="low"))
    lines = sure.mark_rule(color=INK, strokeWidth=1.5).encode(x="low:Q", x2="high:Q", y=y)
    verdicts = list(COLOURS)
    dots = told.mark_point(filled=True, size=70, opacity=1, stroke=PALE, strokeWidth=0.7).encode(
        x=x,
        y=y,
        color=alt.Color("verdict:N", scale={"domain": verdicts, "range": [COLOURS[v] for v in verdicts]}, legend=None),
        shape=alt.Shape("verdict:N", scale={"domain": verdicts, "range": [SHAPES[v] for v in verdicts]}, legend=None),
    )
    title = {"text": f"{number}: {claim.words}", "anchor": "start"}
    return alt.layer(bands, lines, dots).properties(width=300, height=alt.Step(15), title=title)


def main(
    description: str,
    claims: Mapping[str, Claim],
    subjects: Callable[[Path], Sequence[Any]],
    charts: Mapping[str, Callable[[Sequence[Any]], Any]] | None = None,
) -> Sequence[Any]:
    """What they are asked of. `charts` are further ones, each an option of its name."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path, nargs="+", help="folder that `corewood run` or `corewood report` has written")
    parser.add_argument("--picture", type=Path, help="draw it, too: an SVG, PDF or PNG")
    for name, chart in (charts or {}).items():
        parser.add_argument(f"--{name}", type=Path, help=(chart.__doc__ or "").partition(".")[0])
    given = parser.parse_args()
    for report in given.report:
        if not (report / "tables").is_dir():
            parser.error(f"{report}: holds no tables; give the folder of a report, as `corewood run` writes it")
    found = [subject for report in given.report for subject in subjects(report)]
    marks = judged(claims, found)
    if given.picture is not None:
        save(picture(claims, marks, found), given.picture)
    for name, chart in (charts or {}).items():
        if (path := getattr(given, name)) is not None:
            save(chart(found), path)
    return found
