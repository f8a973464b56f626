"""The page's server: its files, and what it asks of the model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import asdict
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import ValidationError

from corewood.errors import InputError
from corewood.explore.guard import App, Guard, refused
from corewood.explore.room import WORK, Room
from corewood.explore.subject import Subject
from corewood.explore.worker import Update
from corewood.report.style import DARK, GREENS, LINES, RED_TO_BLUE

KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
PALETTE = {"greens": GREENS, "diverging": RED_TO_BLUE, "lines": LINES, "dark": DARK}
STREAMED = ("flips", "cases", "importance")  # these tell how far they are


def make_app(subject: Subject, token: str, host: str, port: int) -> tuple[App, Room]:
    app, room = FastAPI(docs_url=None, redoc_url=None, openapi_url=None), Room(subject)
    here = files("corewood.explore").joinpath("page")
    served = {path.name: (path.read_bytes(), KINDS[path.name.rpartition(".")[2]]) for path in here.iterdir()}

    @app.get("/")
    async def index() -> Response:
        return file("index.html")

    @app.get("/page/{name}")
    async def file_of_page(name: str) -> Response:
        return file(name)

    def file(name: str) -> Response:
        """One of those that were there at the start: no name leads anywhere else."""
        if name not in served:
            return refused(404, "no such file")
        content, kind = served[name]
        return Response(content, media_type=f"{kind}; charset=utf-8")

    @app.post("/api/subject")
    async def the_subject() -> dict[str, Any]:
        facts = {"title": subject.title, "stand_ins": list(subject.stand_ins), "folder": subject.masks.name}
        return {**facts, "palette": PALETTE, "models": [asdict(choice) for choice in subject.choices]}

    @app.post("/api/{name}")
    async def work(name: str, request: Request) -> Response:
        if name not in WORK:
            return refused(404, "nothing of this name can be asked")
        try:
            updates = ask(room, name, await request.body())
        except ValidationError as problem:
            return refused(422, told(problem))
        except InputError as problem:
            return refused(503, str(problem))
        if name in STREAMED:
            return StreamingResponse(lines(updates), media_type="application/x-ndjson")
        last = [update async for update in updates][-1]
        return refused(422, last.content) if last.state == "failed" else JSONResponse(plain(last))

    return Guard(app, token, host, port), room


def told(problem: ValidationError) -> str:
    """The first mistake of a request, without what was given: that may be long."""
    found = problem.errors(include_input=False, include_url=False)[0]
    return f"{'.'.join(map(str, found['loc']))}: {found['msg']}"


def plain(update: Update) -> dict[str, Any]:
    return update.content if update.state == "done" else {update.state: update.content or True}


def ask(room: Room, name: str, body: bytes) -> AsyncIterator[Update]:
    """What the worker tells of a request. Whoever stops listening ends it."""
    kind, do, rank = WORK[name]
    asked = kind.model_validate_json(body)
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[Update] = asyncio.Queue()

    def tell(update: Update) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(queue.put_nowait, update)

    request = room.worker.ask((asked.tab, name), rank, do(room, asked), tell)

    async def updates() -> AsyncIterator[Update]:
        try:
            last = False
            while not last:
                update = await queue.get()
                yield update
                last = update.last
        finally:
            room.worker.drop(request)

    return updates()


async def lines(updates: AsyncIterator[Update]) -> AsyncIterator[str]:
    """One JSON object a line; the last holds the result."""
    async for update in updates:
        content = {update.state: update.content if update.content is not None else True}
        yield json.dumps(content) + "\n"
