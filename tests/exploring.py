"""The live page's server in this process, on a free port, and a client that speaks HTTP to it."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import small
import uvicorn

from corewood.cli.exploring import listening
from corewood.explore.room import Room
from corewood.explore.server import make_app
from corewood.explore.subject import OfStudy, Subject, subject_of_study
from corewood.store.store import Store
from corewood.study.engines import Inline
from corewood.study.outcome import Outcome
from corewood.study.plan import make_plan
from corewood.study.run import store_data

TOKEN = "a-token-of-the-tests"
# two sizes, a colouring of every kind, a checkpoint before the last
STUDY: dict[str, Any] = {
    "fine_tune": {"steps": 20, "batch": 16, "learning_rate": 3e-3, "checkpoints": [5]},
    "prune": {"l0": {"sparsity": [0.4], "seeds": 2, "settings": {"steps": 6, "batch": 8}}},
    "ablations": {"examples": 30},
    "attention": {"examples": 10, "maps": 1},
    "sample": 60,
}


def study(folder: Path) -> tuple[Path, OfStudy]:
    """A study that has run, and what is explored of it."""
    path = small.write_study(folder, **STUDY)
    store = Store(folder / "store")
    plan = make_plan(small.spec_of(path), folder)
    store_data(plan, store)
    Inline().run([*plan.jobs.values()], store, lambda _event: None)  # without a report: it takes longer than all of this
    python = [f"outcome = exploring.outcome({str(path)!r})"]
    return path, subject_of_study(small.spec_of(path), folder, store, python)


def outcome(path: str) -> Outcome:
    """As `cw.run` gives it, without tables and report."""
    study = Path(path)
    return Outcome(make_plan(small.spec_of(study), study.parent), {}, Path(), Store(study.parent / "store"))


@dataclass
class Page:
    """As a browser that opened the address once."""

    port: int
    room: Room
    tab: str = "test"

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/?token={TOKEN}"

    def send(self, method: str, path: str, body: bytes | None = None, **headers: str | None) -> tuple[int, Any, bytes]:
        """(status, headers, body); a header that is None is not sent."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        usual = {"Host": f"127.0.0.1:{self.port}", "Cookie": f"corewood-{self.port}={TOKEN}"}
        usual |= {"Content-Type": "application/json"} if body is not None else {}
        sent = {**usual, **{name.replace("_", "-"): value for name, value in headers.items()}}
        connection.putrequest(method, path, skip_host=True)
        for name, value in sent.items():
            if value is not None:
                connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        response = connection.getresponse()
        found = response.status, response.headers, response.read()
        connection.close()
        return found

    def ask(self, kind: str, **body: Any) -> Any:
        """The result; of what is streamed, the last line's."""
        status, _, found = self.send("POST", f"/api/{kind}", json.dumps({"tab": self.tab, **body}).encode())
        lines = [json.loads(line) for line in found.decode().splitlines()]
        assert status == 200, lines
        return lines[-1].get("done", lines[-1])

    def refused(self, kind: str, **body: Any) -> str:
        status, _, found = self.send("POST", f"/api/{kind}", json.dumps({"tab": self.tab, **body}).encode())
        assert status == 422
        return str(json.loads(found)["error"])


@contextmanager
def served(subject: Subject) -> Iterator[Page]:
    sock = listening("127.0.0.1", 0)
    port = sock.getsockname()[1]
    app, room = make_app(subject, TOKEN, "127.0.0.1", port)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, args=([sock],), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield Page(port, room)
    server.should_exit = True
    thread.join(timeout=20)
    room.worker.stop()
    sock.close()
