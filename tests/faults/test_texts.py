"""Names and texts of others in every place they reach: a page, a table, a terminal, a program."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pandas as pd
import pytest
from rich.live import Live
from rich.text import Text

from corewood.cli import screen as screens
from corewood.cli.progress import LiveTable
from corewood.report import page
from corewood.report.cells import in_script, write_csv

HOSTILE = ["<!--<script>", "</script><img src=x onerror=alert(1)>", "]]>", "\u2028", "&lt;", "<\\/script>"]
FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "=cmd|' /C calc'!A0", "\uff1d1"]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_ends_a_script_or_begins_a_comment(text: str) -> None:
    made = in_script({text: [text]})
    assert "<" not in made
    assert json.loads(made) == {text: [text]}


def test_everything_a_page_holds_as_json_goes_that_way() -> None:
    source = Path(page.__file__).read_text(encoding="utf-8")
    assert source.count("in_script(") == 3
    assert "json.dumps" not in source
    template = Path(page.__file__).with_name("page.html").read_text(encoding="utf-8")
    assert template.count('type="application/json"') == 3


def test_a_table_is_no_program(tmp_path: Path) -> None:
    table = pd.DataFrame({"=name": FORMULAS, "number": range(-4, 4), "share": [-0.5] * 8, "kept": [True, False] * 4})
    table["mixed"] = pd.Series([-1, "-1", None, "a", 2.5, "=b", "", "'c"], dtype=object)
    write_csv(table, tmp_path / "t.csv")
    found = pd.read_csv(tmp_path / "t.csv", keep_default_na=False, dtype=str)
    assert found.columns.tolist() == ["'=name", "number", "share", "kept", "mixed"]
    assert found["'=name"].tolist() == [f"'{text}".replace("\r", "\n") for text in FORMULAS]
    assert found["number"].tolist() == [str(n) for n in range(-4, 4)]
    assert set(found["share"]) == {"-0.5"}
    assert found["mixed"].tolist() == ["-1", "'-1", "", "a", "2.5", "'=b", "", "'c"]
    assert table["=name"].tolist() == FORMULAS  # what goes to Parquet is as it was


ESCAPES = ["\x1b[2J\x1b[H", "\x1b]0;title\x07", "\x9b31m", "a\rb", "\u202egnp.exe", "\x08\x08", "\udcff"]


@pytest.mark.parametrize("text", ESCAPES)
def test_a_terminal_shows_what_others_wrote_and_obeys_none_of_it(text: str) -> None:
    written = io.StringIO()
    console = screens.Screen(file=written, force_terminal=True, width=100, highlight=False)
    shown = screens.table((text,), ())
    shown.add_row(text)
    for part in (text, shown, Text(text, style="red")):
        console.print(part, markup=False, style="bold")
    plain = written.getvalue()
    for ours in ("\x1b[1m", "\x1b[0m", "\x1b[1;31m", "\x1b[2m", "\x1b[31m", "\x1b[1;2m", "\x1b[2;1m"):
        plain = plain.replace(ours, "")
    assert not [c for c in plain if c != "\n" and (ord(c) < 32 or 127 <= ord(c) < 160 or c in "\u202e\udcff")]
    assert len(plain.split("\n")) == 5  # three lines, two of the table
    assert "".join(c for c in text if c.isalnum()) in "".join(c for c in plain if c.isalnum())


def test_every_console_of_the_command_is_one_of_these() -> None:
    for path in Path(screens.__file__).parent.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert " Console(" not in text, path.name
        assert "print(" not in text.replace("console.print(", "").replace("aside().print(", "") or path.name in (
            "voice.py",  # JSON, in which every such character is written as a number
            "doctor.py",  # in the program of a probe
        ), path.name


def test_the_name_of_a_job_is_no_markup() -> None:
    from corewood.study.engines import Event
    from corewood.study.job import Job
    from corewood.study.kinds import KINDS

    written = io.StringIO()
    show = LiveTable(screens.Screen(file=written, width=120, force_terminal=True))
    job = Job.make(KINDS["encode"], "encode [/dim][red]x[/nothing]", {})
    show.tally.start([job])
    show.event(job, Event(job.key, "started"))
    with Live(show.render(), console=show.live.console):
        pass
    assert "[/dim][red]x[/nothing]" in written.getvalue()
