"""What stands beside the model's file: config, tokenizer, and a record of what it is."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corewood.model.load import Model
from corewood.model.weights import WeightMask
from corewood.ship.folder import listed
from corewood.ship.subject import Shipped, Subject
from corewood.store.store import versions

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def write_config(net: PreTrainedModel, folder: Path) -> None:
    """The original type, with the names of its classes."""
    config = deepcopy(net.config)
    config.architectures = [type(net).__name__]
    config._name_or_path = ""
    config.to_json_file(folder / "config.json")


def write_tokenizer(model: Model, folder: Path) -> None:
    """As texts were encoded: cut at the longest that the model takes, padded on the right."""
    tokenizer = deepcopy(model.tokenizer)
    if tokenizer.is_fast:  # what the last call asked for would stay in its file
        tokenizer.backend_tokenizer.no_truncation()
        tokenizer.backend_tokenizer.no_padding()
    tokenizer.model_max_length = model.max_length
    tokenizer.padding_side = "right"
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    said = json.loads(path.read_text(encoding="utf-8"))
    local = ("is_local", "local_files_only", "name_or_path")  # how it was read, here
    kept = {k: v for k, v in said.items() if k not in local and not (isinstance(v, str) and Path(v).is_absolute())}
    kept |= {"model_max_length": model.max_length, "padding_side": "right"}
    path.write_text(json.dumps(kept, indent=2, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")


def write_record(subject: Subject, shipped: Shipped, folder: Path) -> None:
    """corewood.json: what was removed, where it comes from, what was found, and the SHA-256 of every file beside it."""
    mask, origin = subject.mask, subject.origin
    if isinstance(mask, WeightMask):
        removed: dict[str, Any] = {"kept_weights": len(mask), "of_weights": mask.total}
    else:
        removed = {"heads": mask.heads.astype(int).tolist(), "mlps": mask.mlps.astype(int).tolist()}
    content = {
        "subnetwork": subject.name,
        "base_model": origin.base,
        "licence": origin.licence or None,
        "study": origin.study or None,
        "facts": dict(origin.facts),
        "keys": dict(origin.keys),
        "ablate": subject.ablate,
        "mask": removed,
        "labels": list(subject.model.labels),
        "max_length": subject.model.max_length,
        "padding_side": "right",
        "inputs": list(shipped.inputs),
        "exporter": shipped.exporter,
        "parameters": dict(zip(("full", "exported"), shipped.parameters, strict=True)),
        "largest_difference_of_a_logit": shipped.apart,
        "cases": json.loads(shipped.cases.to_json(orient="records")),
        "int8": json.loads(shipped.moved.to_json(orient="records")),
        "timings": [{**vars(timing), "milliseconds": dict(timing.milliseconds)} for timing in shipped.timings],
        "full_onnx_bytes": shipped.full_bytes or None,
        "versions": versions(),
        "files": listed(folder),
    }
    (folder / "corewood.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
