"""A run's own scheduler and workers speak to nobody else."""

from __future__ import annotations

import http.client
import ssl
from pathlib import Path
from typing import Any

import psutil
import pytest
from distributed import Client
from distributed.security import Security

from corewood.store.store import Store
from corewood.study.engines.local import Local
from corewood.study.job import Job

JOB = Job("encode", "k", "encode", {}, {})
HANDSHAKE = (OSError, ssl.SSLError, http.client.HTTPException)


def ports() -> set[int]:
    """Those that this process and its children listen on."""
    me = psutil.Process()
    there = [c for p in (me, *me.children(recursive=True)) for c in p.net_connections("tcp") if c.status == "LISTEN"]
    assert {c.laddr.ip for c in there} <= {"127.0.0.1"}
    return {c.laddr.port for c in there}


def answer(port: int) -> http.client.HTTPResponse:
    page = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    page.request("GET", "/info/main/workers.html", headers={"Host": "elsewhere.example"})
    return page.getresponse()


def whoami(dask_scheduler: Any = None) -> str:
    return "in"


def test_an_outsider_is_refused_at_every_port(tmp_path: Path) -> None:
    before = ports()
    with Local(1).open([JOB], Store(tmp_path)) as client:
        client.wait_for_workers(1, timeout=60)
        assert client.run_on_scheduler(whoami) == "in"
        opened = ports() - before
        assert len(opened) == 3  # scheduler, worker, and the process beside the worker: no HTTP
        for port in opened:
            with pytest.raises(HANDSHAKE):
                answer(port)
        port = client.scheduler.address.rpartition(":")[2]
        for address, security in ((f"tcp://127.0.0.1:{port}", None), (f"tls://127.0.0.1:{port}", Security.temporary())):
            with pytest.raises(OSError, match=r"(?s)."):
                Client(address, security=security, timeout=2, set_as_default=False).run_on_scheduler(whoami)
        assert client.run_on_scheduler(whoami) == "in"
