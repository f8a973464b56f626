"""Who may ask the live page's server: its own tab and nobody else, in order, and as the command starts it."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from typing import Any

import exploring
import pytest
import small
import tiny
import torch
import uvicorn
from exploring import Page

import corewood as cw
from corewood.cli.exploring import listening, serve, study_subject
from corewood.explore.asked import LONGEST
from corewood.explore.guard import BODY, Names
from corewood.explore.subject import OneCheckpoint

FIRST = "The nun saw the cook near the baker."
PLACE = {"task": "", "tuning": 0, "step": 0}


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> OneCheckpoint:
    folder = tmp_path_factory.mktemp("guard")
    made = OneCheckpoint(str(tiny.checkpoint(folder / "model")), None, None)
    made.base, made.masks = folder, folder / "masks"
    return made


@pytest.fixture(scope="module")
def page(subject: OneCheckpoint) -> Iterator[Page]:
    with exploring.served(subject) as found:
        yield found


def body(*closed: str) -> dict[str, Any]:
    units = [f"L{layer}.H{head}" for layer in range(2) for head in range(4)] + ["L0.MLP", "L1.MLP"]
    mask = "".join("0" if name in closed else "1" for name in units)
    return {"place": PLACE, "mask": mask, "ablate": "zero", "first": FIRST}


def test_the_first_address_gives_a_cookie_that_other_sites_never_send(page: Page) -> None:
    status, headers, content = page.send("GET", f"/?token={exploring.TOKEN}", Cookie=None)
    assert status == 200
    cookie = headers["Set-Cookie"]
    assert cookie.startswith(f"corewood-{page.port}={exploring.TOKEN};")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    policy = headers["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert exploring.TOKEN.encode() not in content
    assert not re.search(rb"<script(?![^>]*src=)|\son\w+=|style=", content)  # nothing inline
    for name in re.findall(rb'(?:src|href)="(/page/[^"]+)"', content):
        assert page.send("GET", name.decode())[0] == 200


@pytest.mark.parametrize("path", ["/", "/page/main.js", "/api/subject"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Cookie": None},
        {"Cookie": "other=1"},
        {"Cookie": "corewood-1=a-token-of-the-tests"},
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example:80"},
        {"Host": ""},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
    ],
    ids=str,
)
def test_nobody_else_may_ask(page: Page, path: str, headers: dict[str, str | None]) -> None:
    method, content = ("POST", b"{}") if path.startswith("/api") else ("GET", None)
    assert page.send(method, path, content)[0] == 200
    status, found, _ = page.send(method, path, content, **headers)
    assert status == 403
    assert found["Set-Cookie"] is None
    wrong, found, _ = page.send("GET", "/?token=wrong", Cookie=None)
    assert (wrong, found["Set-Cookie"]) == (403, None)


def test_the_page_itself_may_ask_from_either_name_and_a_forwarded_port(page: Page) -> None:
    for host in (f"127.0.0.1:{page.port}", f"localhost:{page.port}", "localhost:9999"):
        assert (
            page.send("POST", "/api/subject", b"{}", Host=host, Origin=f"http://{host}", Sec_Fetch_Site="same-origin")[0] == 200
        )
        assert page.send("POST", "/api/subject", b"{}", Host=host, Origin="http://localhost:1")[0] == 403
    for site in ("cross-site", "same-site", "none"):
        assert page.send("POST", "/api/subject", b"{}", Sec_Fetch_Site=site)[0] == 403


def test_names_of_a_server_that_others_may_reach() -> None:
    everywhere, one = Names(".".join("0000")), Names("192.168.1.7")
    assert everywhere.allow("10.1.2.3:80")
    assert everywhere.allow("[fe80::1]:80")
    assert not everywhere.allow("evil.example")
    assert one.allow("192.168.1.7:80")
    assert one.allow("localhost")
    assert not one.allow("192.168.1.8")


def test_bodies_are_limited_and_looked_at(page: Page) -> None:
    good = {"tab": "test", **body("L0.H1")}

    def status(content: Any, **headers: str | None) -> int:
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()
        return page.send("POST", "/api/answer", raw, **headers)[0]

    assert status(good) == 200
    assert status({**good, "first": "字" * LONGEST, "second": "字" * LONGEST}) == 200  # a study's own example may be long
    assert status(good, Content_Type="text/plain") == 415  # what a foreign form could send
    assert status(b" " * (BODY + 1)) == 413
    assert status({**good, "first": "x" * (LONGEST + 1)}) == 422
    for wrong in (
        b"", b"[]", b"{", {**good, "mask": "101"}, {**good, "mask": "2" * 10}, {**good, "ablate": "resample"},
        {**good, "tab": "../x"}, {**good, "more": 1}, {**good, "place": {**PLACE, "task": "other"}},
        {**good, "place": {**PLACE, "step": "0"}}, {**good, "first": 3},
    ):  # fmt: skip
        assert status(wrong) == 422, wrong
    assert page.send("POST", "/api/nothing", b"{}")[0] == 404
    for path in (
        "/page/../server.py",
        "/page/..%2fserver.py",
        "/page/%2e%2e%2f%2e%2e%2fstudy.yaml",
        "/docs",
        "/openapi.json",
        "/etc/passwd",
    ):
        assert page.send("GET", path)[0] == 404, path


def test_one_page_gets_the_newest_answer_and_two_pages_both(page: Page, subject: OneCheckpoint) -> None:
    """Requests that wait are given up for newer ones of their page; the model's thread is held while they come in."""
    hold, found, waiting = threading.Event(), dict[str, Any](), page.room.worker.waiting

    def blocking() -> Any:
        hold.wait(20)
        yield 0, 1

    def send(name: str, tab: str, closed: str) -> None:
        found[name] = Page(page.port, page.room, tab).ask("answer", **body(closed))

    page.room.worker.ask(("blocks", "model"), -1, blocking(), lambda _update: None)
    threads = []
    for name, tab, closed in (("old", "one", "L0.H0"), ("new", "one", "L1.H1"), ("other", "two", "L1.MLP")):
        before = waiting.get((tab, "answer"))
        threads.append(threading.Thread(target=send, args=(name, tab, closed)))
        threads[-1].start()
        while waiting.get((tab, "answer")) is before:
            time.sleep(0.01)
    hold.set()
    for thread in threads:
        thread.join(20)
    assert found["old"] == {"superseded": True}
    model = subject.model
    for name, closed in (("new", "L1.H1"), ("other", "L1.MLP")):
        inputs = model.tokenizer(FIRST, return_tensors="pt")
        with cw.gated(model, model.units.without(closed), "zero"), torch.inference_mode():
            assert found[name]["logits"] == pytest.approx(model.net(**inputs).logits[0].tolist(), abs=1e-5)


# the command


def test_the_command_prints_an_address_that_opens_and_ctrl_c_stops_it(tmp_path: Path) -> None:
    tiny.checkpoint(tmp_path / "model")
    words = [sys.executable, "-m", "corewood", "explore", "model", "--no-browser", "--port", "0"]
    process = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{32}", address)
    with urllib.request.urlopen(address) as response:
        assert b"Corewood explore" in response.read()
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "")
    assert said.splitlines()[-1] == "Stopped."
    assert "Traceback" not in said


def test_letting_other_machines_in_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: Queue[str] = Queue()
    monkeypatch.setattr(uvicorn.Server, "run", lambda _server, sockets: sockets[0].close())
    monkeypatch.setattr(webbrowser, "open", opened.put)
    subject = OneCheckpoint(str(tiny.checkpoint(tmp_path / "model")), None, None)
    for host, shown in (("127.0.0.1", "127.0.0.1"), (".".join("0000"), "127.0.0.1")):
        serve(subject, host, 0, open_browser=True)
        out, err = capsys.readouterr()
        assert re.fullmatch(rf"http://{re.escape(shown)}:\d+/\?token=[\w-]{{32}}\n", out)
        assert opened.get(timeout=10) == out.strip()
        assert ("Warning" in err and "lets other machines reach this page" in err) == (host != "127.0.0.1")


def test_what_cannot_be_explored_is_told(tmp_path: Path) -> None:
    path = small.write_study(tmp_path)
    with pytest.raises(cw.InputError, match="holds nothing of this study yet; run it first: corewood run"):
        study_subject(path, tmp_path / "empty", None, None)
    taken = listening("127.0.0.1", 0)
    assert taken.proto == socket.IPPROTO_TCP  # else every answer waits 40 ms for more to send
    with pytest.raises(cw.InputError, match="--port 0 takes any free port"):
        listening("127.0.0.1", taken.getsockname()[1])
    taken.close()
