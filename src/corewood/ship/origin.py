"""Where a model comes from, as far as it is known: what it was made of, under which licence, by which study."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from corewood.model.load import Model

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
HUB = "https://huggingface.co"
HUB_NAME = r"[\w-][\w.-]*(/[\w-][\w.-]*)?"


@dataclass(frozen=True)
class Origin:
    base: str  # the checkpoint it was made of, by name: never a folder of this machine
    hub: bool = False  # whether that is a name of the hub's
    licence: str = ""  # as its card says; "" where it does not
    made: str = "as it is"  # what was done to the checkpoint before pruning
    study: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)  # of the subnetwork: task, tuning, way, seed and so on
    keys: Mapping[str, Any] = field(default_factory=dict)  # of the store


def base_of(checkpoint: str, source: str) -> dict[str, Any]:
    """`base`, `hub` and `licence` of a checkpoint, by what a study calls it and the folder or hub id it was read from."""
    licence = licence_of(source)
    if checkpoint == "minilm":
        return {"base": MINILM, "hub": True, "licence": licence}
    if Path(source).is_dir():
        return {"base": Path(source).absolute().name, "hub": False, "licence": licence}
    return {"base": checkpoint, "hub": True, "licence": licence}


def licence_of(source: str) -> str:
    said = card_of(source).get("license") or ""
    return ", ".join(map(str, said)) if isinstance(said, list) else str(said)


def base_in_memory(model: Model) -> dict[str, Any]:
    """The same of a model that is loaded: the name it has, unless it came from the hub under one."""
    source = str(model.net.config._name_or_path or "")
    if re.fullmatch(HUB_NAME, source) and not Path(source).exists():
        return base_of(source, source)
    return {"base": model.name, "hub": False, "licence": licence_of(source)}


def card_of(source: str) -> dict[str, Any]:
    """The front matter of a checkpoint's README.md, where there is one on this machine."""
    readme = Path(source) / "README.md"
    if not source:  # which, as a path, is where we are
        return {}
    if not Path(source).is_dir():
        if not re.fullmatch(HUB_NAME, source):
            return {}
        from huggingface_hub import try_to_load_from_cache

        found = try_to_load_from_cache(source, "README.md")
        if not isinstance(found, str):
            return {}
        readme = Path(found)
    if not readme.is_file():
        return {}
    first, _, rest = readme.read_text(encoding="utf-8", errors="replace").partition("---\n")
    try:
        said = yaml.safe_load(rest.partition("\n---")[0]) if not first.strip() else {}
    except yaml.YAMLError:
        said = {}
    return said if isinstance(said, dict) else {}
