"""One thread that runs the model, a step at a time.

A request is known by who asks and for what: a newer one of the same key takes the place of an older one, which is then over.
What is asked for is an iterator of steps; between two steps the worker goes on with whatever is most urgent, so that a click
is answered while cases are being judged. Models are touched by this thread alone.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal

from corewood.errors import CorewoodError, InputError

Steps = Generator[tuple[int, int], None, Any]  # yields (done, total), returns the result
Key = tuple[str, str]  # the tab, and the kind of request
MOST = 64  # requests that wait at once
LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Update:
    """What a request is told: progress, and in the end one of the others."""

    state: Literal["progress", "done", "failed", "superseded"]
    content: Any = None

    @property
    def last(self) -> bool:
        return self.state != "progress"


@dataclass(eq=False)
class Request:
    key: Key
    rank: int  # the smaller, the more urgent
    steps: Steps
    tell: Callable[[Update], None]
    turn: int = 0
    over: bool = field(default=False)


class Worker:
    def __init__(self) -> None:
        self.waiting: dict[Key, Request] = {}
        self.changed = threading.Condition()
        self.turns = count()
        self.stopped = False
        self.thread = threading.Thread(target=self._work, name="model", daemon=True)
        self.thread.start()

    def ask(self, key: Key, rank: int, steps: Steps, tell: Callable[[Update], None]) -> Request:
        """`tell` is called from the worker's thread, or from this one where an older request gives way."""
        request = Request(key, rank, steps, tell, next(self.turns))
        with self.changed:
            older = self.waiting.get(key)
            if older is None and len(self.waiting) >= MOST:
                raise InputError("too many pages ask at once; close some of them")
            self.waiting[key] = request
            self.changed.notify()
        if older is not None:
            self._end(older, Update("superseded"))
        return request

    def drop(self, request: Request) -> None:
        """Nobody waits for it any more."""
        with self.changed:
            request.over = True
            if self.waiting.get(request.key) is request:
                del self.waiting[request.key]

    def stop(self) -> None:
        with self.changed:
            self.stopped = True
            self.changed.notify()
        self.thread.join(timeout=10)

    def _end(self, request: Request, update: Update) -> None:
        with self.changed:
            if request.over:
                return
            request.over = True
            if self.waiting.get(request.key) is request:
                del self.waiting[request.key]
        request.tell(update)

    def _next(self) -> Request | None:
        with self.changed:
            self.changed.wait_for(lambda: self.waiting or self.stopped)
            return None if self.stopped else min(self.waiting.values(), key=lambda r: (r.rank, r.turn))

    def _work(self) -> None:
        while (request := self._next()) is not None:
            try:
                progress = next(request.steps)
            except StopIteration as end:
                self._end(request, Update("done", end.value))
            except CorewoodError as problem:
                self._end(request, Update("failed", str(problem)))
            except Exception as problem:  # the thread must outlive a model that fails on a text
                LOG.exception("explore: %s", request.key[1])
                self._end(request, Update("failed", f"{type(problem).__name__}: {problem}"))
            else:
                if not request.over:
                    request.tell(Update("progress", progress))
