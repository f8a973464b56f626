"""A job: keys in, one key out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from corewood.store.store import digest

# Raise a number when the code of that kind changes what it computes: its old results are then computed anew.
VERSIONS = {
    "data": 1, "encode": 1, "fine_tune": 2, "reference": 1, "search": 4, "predict": 2, "ablate": 1, "attention": 1,
    "importance": 2, "magnitude": 2, "tickets": 2, "retrain": 2, "pattern_classifier": 1, "patterns": 1,
    "tables": 6, "report": 6,
}  # fmt: skip


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
        kind: str,
        title: str,
        params: Mapping[str, Any],
        inputs: Mapping[str, Job] | None = None,
        local: Mapping[str, Any] | None = None,
        work: int = 1,
    ) -> Job:
        keys = {name: (job.kind, job.key) for name, job in (inputs or {}).items()}
        content = {"kind": kind, "version": VERSIONS[kind], "params": params, "inputs": {n: k for n, (_, k) in keys.items()}}
        return cls(kind, digest(content), title, params, keys, local or {}, work)

    def plain(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_plain(cls, content: Mapping[str, Any]) -> Job:
        return cls(**{**content, "inputs": {n: (k[0], k[1]) for n, k in content["inputs"].items()}})

    def needs(self) -> list[str]:
        return [key for _, key in self.inputs.values()]
