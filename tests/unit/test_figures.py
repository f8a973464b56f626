"""Charts as files, drawn by one process or by several."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from corewood.report import figures
from corewood.report.page import VEGA_LITE


def bars(*heights: int) -> dict[str, Any]:
    rows = [{"name": str(place), "height": height} for place, height in enumerate(heights)]
    encoding = {"x": {"field": "name", "type": "nominal"}, "y": {"field": "height", "type": "quantitative"}}
    return {"data": {"values": rows}, "mark": "bar", "encoding": encoding}


CHARTS = {"few": bars(1, 2), "more": bars(*range(9)), "one": bars(3)}


def test_several_processes_draw_what_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = []
    begin = figures.begin
    monkeypatch.setattr(figures, "WORTH", 1)
    monkeypatch.setattr(figures, "begin", lambda charts, *rest: begun.append(set(charts)) or begin(charts, *rest))
    monkeypatch.chdir(tmp_path)
    for processes in (1, 2):
        folder = Path(str(processes))  # relative: a process may stand elsewhere
        folder.mkdir()
        with figures.drawing(CHARTS, ["svg", "png"], folder, VEGA_LITE, processes):
            pass
    assert begun == [{"more"}, {"few", "one"}]
    one, two = ({path.name: path.read_bytes() for path in Path(n).iterdir()} for n in "12")
    assert sorted(one) == [f"{name}.{kind}" for name in sorted(CHARTS) for kind in ("png", "svg")]
    assert one == two


def test_what_goes_wrong_in_a_process_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "WORTH", 1)
    nowhere = tmp_path / "nowhere"
    with pytest.raises(FileNotFoundError, match="nowhere"), figures.drawing(CHARTS, ["svg"], nowhere, VEGA_LITE, 2):
        pass


def test_what_a_killed_process_leaves_is_drawn_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = figures.begin

    @contextmanager
    def killed(*asked: Any) -> Iterator[subprocess.Popen[bytes]]:
        with begin(*asked) as process:
            process.kill()
            yield process

    monkeypatch.setattr(figures, "WORTH", 1)
    monkeypatch.setattr(figures, "begin", killed)
    with figures.drawing(CHARTS, ["svg"], tmp_path, VEGA_LITE, 2):
        pass
    assert sorted(path.stem for path in tmp_path.iterdir()) == sorted(CHARTS)


def test_a_process_does_not_outlive_a_page_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "WORTH", 1)
    begun: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def noted(*arguments: Any, **options: Any) -> Any:
        begun.append(popen(*arguments, **options))
        return begun[-1]

    monkeypatch.setattr(subprocess, "Popen", noted)
    with pytest.raises(ZeroDivisionError), figures.drawing(CHARTS, ["svg"], tmp_path, VEGA_LITE, 2):
        1 / 0  # noqa: B018
    assert [process.poll() for process in begun] == [-9, -9]
