"""Where jobs run, as options say it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corewood.errors import InputError

if TYPE_CHECKING:
    from corewood.spec.cluster import Cluster
    from corewood.study.engines import Engine


@dataclass(frozen=True)
class Where:
    workers: int | None = None
    cluster: str | None = None
    asked: Mapping[str, Any] = field(default_factory=dict)  # of a batch system

    def __post_init__(self) -> None:
        asked = [name for name, value in self.asked.items() if value is not None]
        if self.workers is not None and self.cluster is not None:
            raise InputError("--workers, --cluster: processes on this machine, or workers elsewhere; choose one of the two")
        if asked and (self.cluster is None or self.at_address):
            names = ", ".join(f"--{'partition' if name == 'queue' else name}" for name in asked)
            raise InputError(f"{names}: are for a batch system; add --cluster slurm, or its file")

    @property
    def at_address(self) -> bool:
        """Whether a scheduler is there already: an address, or the JSON file that one writes."""
        given = str(self.cluster)
        return "://" in given or Path(given).suffix == ".json"

    def batch(self) -> Cluster:
        from corewood.spec.cluster import read_cluster

        if self.at_address:
            raise InputError(
                f"--cluster {self.cluster}: is there already; a plan says what to ask of a batch system: slurm, or its file"
            )
        return read_cluster(str(self.cluster), dict(self.asked))

    def engine(self) -> Engine:
        from corewood.study.engines import engine

        if self.cluster is None:
            return engine(self.workers)
        if self.at_address:
            from corewood.study.engines.address import AtAddress

            return AtAddress(self.cluster)
        spec = self.batch()
        try:
            from corewood.study.engines.batch import InBatch
        except ModuleNotFoundError as missing:
            raise InputError(f"--cluster {self.cluster}: needs {missing.name}; pip install 'corewood[cluster]'") from None
        return InBatch(spec)
