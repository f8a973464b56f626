"""A job: keys in, one key out. A kind of job: all that is known of it in one record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from corewood.store.store import digest

if TYPE_CHECKING:
    from corewood.study.work import Work


@dataclass(frozen=True)
class Kind:
    name: str
    version: int  # raise it when the code changes what it computes: old results are then computed anew
    title: str  # what progress calls it
    pace: Literal["forward", "search", "train", "second"]  # what one example of its work takes,
    factor: float  # times this
    do: Callable[[Work], dict[str, Any]] | None  # what it returns goes into meta.json; None: made where it is planned


@dataclass(frozen=True)
class Job:
    """`params` and `inputs` make the key; `local` is what only this machine needs to know (folders, device)."""

    kind: str
    key: str
    title: str
    params: Mapping[str, Any]
    inputs: Mapping[str, tuple[str, str]]  # name -> (kind, key)
    local: Mapping[str, Any] = field(default_factory=dict)
    work: int = 1  # about how many examples pass through the model, to share out progress and estimate time

    @classmethod
    def make(
        cls,
        kind: Kind,
        title: str,
        params: Mapping[str, Any],
        inputs: Mapping[str, Job] | None = None,
        local: Mapping[str, Any] | None = None,
        work: int = 1,
    ) -> Job:
        keys = {name: (job.kind, job.key) for name, job in (inputs or {}).items()}
        content = {"kind": kind.name, "version": kind.version, "params": params}
        key = digest({**content, "inputs": {n: k for n, (_, k) in keys.items()}})
        return cls(kind.name, key, title, params, keys, local or {}, work)

    def plain(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_plain(cls, content: Mapping[str, Any]) -> Job:
        return cls(**{**content, "inputs": {n: (k[0], k[1]) for n, k in content["inputs"].items()}})

    def needs(self) -> list[str]:
        return [key for _, key in self.inputs.values()]
