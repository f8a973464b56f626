"""How a command speaks: to a person, with few words or many, or to a program."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import Any

import typer

from corewood.errors import InputError
from corewood.untrusted import visible


@dataclass(frozen=True)
class Voice:
    quiet: bool = False  # nothing but the result
    verbose: bool = False  # every job as it begins, and where its result is
    json: bool = False  # standard output holds one object on each line, and nothing else

    def __post_init__(self) -> None:
        if self.quiet and self.verbose:
            raise InputError("--quiet, --verbose: choose one of the two")

    def first(self, line: str) -> None:
        """At once: what follows imports torch, which takes seconds."""
        if not self.json and not self.quiet:
            typer.echo(visible(line), err=True)
        self.event("begin", text=line)

    def event(self, event: str, **facts: Any) -> None:
        if self.json and not self.quiet:
            emit(event, **facts)


def emit(event: str, **facts: Any) -> None:
    """For programs."""
    print(json.dumps({"event": event, **facts}, ensure_ascii=False, allow_nan=False), flush=True)


class OnceOnly(logging.Filter):
    """The hub's client says twice of each of five tries that it has failed; once is enough."""

    told = False

    def filter(self, record: logging.LogRecord) -> bool:
        said = record.getMessage()
        if "thrown while requesting" not in said and "[Retry " not in said:
            return True
        if self.told:
            return False
        self.told = True
        record.msg = "The hub does not answer; trying again a few times (HF_HUB_OFFLINE=1 uses what is on this machine)"
        record.args = ()
        return True


def quiet_hub() -> None:
    logger = logging.getLogger("huggingface_hub.utils._http")
    if not any(isinstance(found, OnceOnly) for found in logger.filters):
        logger.addFilter(OnceOnly())
