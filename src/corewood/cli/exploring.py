"""`corewood explore`: what is explored, the address of the page, and its end."""

from __future__ import annotations

import logging
import secrets
import socket
import threading
import webbrowser
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import typer
import uvicorn

from corewood.cli.screen import aside
from corewood.errors import InputError
from corewood.explore.guard import LOCAL, is_everywhere
from corewood.explore.server import make_app
from corewood.explore.subject import OneCheckpoint, Subject, subject_of_study
from corewood.spec import read_study
from corewood.store.store import Store

GRACE = 1  # seconds that open requests have once Ctrl-C was pressed


def study_subject(study: Path, store: Path, changes: Sequence[str] | None, presets: Sequence[str] | None) -> Subject:
    spec = read_study(study, list(changes or ()), list(presets or ()))
    given, place = repr(str(study)), str(store)
    if changes or presets:  # such a study is no file, and paths in it are relative to where Python runs
        given, place = f"cw.read_study({study.name!r}, {list(changes or ())!r}, {list(presets or ())!r})", str(store.absolute())
    lines = [f"# in {study.absolute().parent}"] if changes or presets else []
    return subject_of_study(spec, study.parent, Store(store), [*lines, f"outcome = cw.run({given}, store={place!r})"])


def checkpoint_subject(checkpoint: str, classes: Sequence[str], pad_token: str | None) -> Subject:
    return OneCheckpoint(checkpoint, tuple(classes) or None, pad_token)


def serve(subject: Subject, host: str, port: int, open_browser: bool) -> None:
    """Until Ctrl-C."""
    sock = listening(host, port)
    token, port = secrets.token_urlsafe(24), sock.getsockname()[1]
    app, room = make_app(subject, token, host, port)
    shown = "127.0.0.1" if is_everywhere(host) else f"[{host}]" if ":" in host else host
    link = f"http://{shown}:{port}/?token={token}"
    console = aside(soft_wrap=True)
    if host not in LOCAL:
        console.print(
            f"Warning: --host {host} lets other machines reach this page. Whoever has the address with its token can use it, "
            "and read the texts of the study; nothing is encrypted.",
            style="bold red", markup=False,
        )  # fmt: skip
    console.print(f"{subject.title}: click heads on and off at this address. Ctrl-C stops.", markup=False)
    typer.echo(link)
    if open_browser:  # beside the server: a browser in the terminal comes back only when it is left
        threading.Thread(target=webbrowser.open, args=(link,), daemon=True).start()
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=GRACE, server_header=False)
    with suppress(KeyboardInterrupt):  # the usual way to end it
        uvicorn.Server(config).run(sockets=[sock])
    room.worker.stop()
    console.print("Stopped.")


def listening(host: str, port: int) -> socket.socket:
    """Made with TCP's own number: asyncio sends small answers at once on such sockets alone, and 40 ms later on others."""
    try:
        kind, stream, tcp, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        with ExitStack() as stack:
            sock = stack.enter_context(socket.socket(kind, stream, tcp))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(where)
            sock.listen()
            stack.pop_all()
        return sock
    except OSError as problem:
        raise InputError(
            f"--host {host} --port {port}: nothing can listen there ({problem.strerror}); --port 0 takes any free port"
        ) from None
