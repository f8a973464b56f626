"""A model as an ONNX file that says nothing of where it was made, and how such a file is run."""

from __future__ import annotations

import importlib.util
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from corewood.data.encode import Encoded, by_length
from corewood.errors import InputError
from corewood.model.checkpoint import quiet_transformers
from corewood.model.reference import Progress, no_progress

if TYPE_CHECKING:
    from transformers import PreTrainedModel

OPSET = 17
WHOLE = 1_900_000_000  # bytes; a protobuf file holds at most 2 GB, and weights beyond that stand beside it
ROWS, TOKENS = 2, 8  # of the batch that the exporter watches
TORCHSCRIPT, DYNAMO = "torchscript", "dynamo"
# of nodes of a torch program: where in the source they come from
SOURCES = ("stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn", "from_node")


def check_installed() -> None:
    missing = [name for name in ("onnx", "onnxruntime") if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"export: {' and '.join(missing)} not installed; run: pip install 'corewood[export]'")


class Logits(nn.Module):
    """Tensors in the order of their names -> logits."""

    def __init__(self, net: PreTrainedModel, names: tuple[str, ...]) -> None:
        super().__init__()
        self.net, self.names = net, names

    def forward(self, *inputs: Tensor) -> Tensor:
        logits: Tensor = self.net(**dict(zip(self.names, inputs, strict=True)), return_dict=True).logits
        return logits


@contextmanager
def quiet() -> Iterator[None]:
    """What exporters remark on their own work is not for users."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def plain(net: PreTrainedModel) -> PreTrainedModel:
    """A copy whose attention is written out, which gives the smaller file, and that keeps no cache."""
    quiet_transformers()
    copy = deepcopy(net).cpu().eval().requires_grad_(False)
    copy.set_attn_implementation("eager")
    copy.config.use_cache = False
    return copy


def watched(net: PreTrainedModel, names: tuple[str, ...], longest: int) -> tuple[Tensor, ...]:
    """Inputs to trace: real tokens, and padding in the second row."""
    tokens = min(TOKENS, longest)
    ids = torch.arange(ROWS * tokens).view(ROWS, tokens) % (net.get_input_embeddings().num_embeddings - 1) + 1
    real = torch.ones_like(ids)
    real[1, 1 + tokens // 2 :] = 0
    given = {"input_ids": torch.where(real > 0, ids, net.config.pad_token_id or 0), "attention_mask": real}
    return tuple(given.get(name, torch.zeros_like(ids)) for name in names)


def write_onnx(
    net: PreTrainedModel, names: tuple[str, ...], longest: int, path: Path, exporters: tuple[str, ...] = (TORCHSCRIPT, DYNAMO)
) -> str:
    """Gives the exporter that did it: the first that can. `names` are those of the inputs, `longest` the most tokens."""
    module, inputs, problems = Logits(plain(net), names).eval(), watched(net, names, longest), []
    for exporter in exporters:
        with quiet(), torch.no_grad(), TemporaryDirectory(dir=path.parent) as scratch:
            try:
                found = EXPORTERS[exporter](module, inputs, names, Path(scratch) / "model.onnx")
            except Exception as problem:  # tracing may fail in any way that the model's own code can
                if isinstance(problem, OSError):
                    raise
                problems.append(f"{exporter}: {(str(problem).splitlines() or [type(problem).__name__])[0]}")
                continue
        save_onnx(found, path)
        return exporter
    raise InputError(f"export: model type {net.config.model_type!r} cannot be written as ONNX ({'; '.join(problems)})")


def by_torchscript(module: nn.Module, inputs: tuple[Tensor, ...], names: tuple[str, ...], scratch: Path) -> Any:
    import onnx

    axes = {name: {0: "batch", 1: "tokens"} for name in names} | {"logits": {0: "batch"}}
    torch.onnx.export(
        module,
        inputs,
        str(scratch),
        dynamo=False,
        opset_version=OPSET,
        input_names=list(names),
        output_names=["logits"],
        dynamic_axes=axes,
    )
    return onnx.load(scratch)


def by_dynamo(module: nn.Module, inputs: tuple[Tensor, ...], names: tuple[str, ...], scratch: Path) -> Any:
    import onnx

    options: dict[str, Any] = {"input_names": list(names), "output_names": ["logits"], "verbose": False}
    torch.onnx.export(module, inputs, str(scratch), dynamo=True, dynamic_shapes=any_shape(names), **options)
    return onnx.load(scratch)


EXPORTERS = {TORCHSCRIPT: by_torchscript, DYNAMO: by_dynamo}


def any_shape(names: tuple[str, ...]) -> dict[str, Any]:
    free = torch.export.Dim.DYNAMIC  # type: ignore[attr-defined]
    return {"inputs": tuple({0: free, 1: free} for _ in names)}


def write_pt2(net: PreTrainedModel, names: tuple[str, ...], longest: int, path: Path) -> None:
    """A torch program: `torch.export.load(path).module()(input_ids, attention_mask, ...)`."""
    with quiet(), torch.no_grad():
        inputs = watched(net, names, longest)
        program = torch.export.export(Logits(plain(net), names).eval(), inputs, dynamic_shapes=any_shape(names))
        for module in program.graph_module.modules():
            for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
                for source in SOURCES:
                    node.meta.pop(source, None)
        torch.export.save(program, path)


def save_onnx(model: Any, path: Path) -> None:
    """Without what names the machine's files, and the same bytes each time."""
    import onnx

    clear(model.graph)
    for function in model.functions:
        clear(function)
    del model.metadata_props[:]
    model.doc_string = ""
    if sum(len(tensor.raw_data) for tensor in model.graph.initializer) > WHOLE:
        beside = f"{path.name}_data"
        onnx.save(model, path, save_as_external_data=True, all_tensors_to_one_file=True, location=beside, size_threshold=1024)
    else:
        path.write_bytes(model.SerializeToString(deterministic=True))


def clear(graph: Any) -> None:
    """Of a graph and all inside it: remarks, sources, and shapes of values in between, which quantising trips over."""
    graph.doc_string = ""
    del graph.metadata_props[:]
    del graph.value_info[:]
    for node in graph.node:
        node.doc_string = ""
        del node.metadata_props[:]
        for attribute in node.attribute:
            attribute.doc_string = ""
            for inside in (attribute.g, *attribute.graphs):
                if inside.node:
                    clear(inside)
    for value in (*getattr(graph, "initializer", ()), *graph.input, *graph.output):
        if not isinstance(value, str):  # functions name their inputs only
            value.doc_string = ""
            del value.metadata_props[:]


def write_int8(source: Path, target: Path) -> None:
    """Weights as whole numbers of 7 bits, a scale for each channel: the mildest of what was tried."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with TemporaryDirectory(dir=target.parent) as scratch:
        part = Path(scratch) / "model.onnx"
        with quiet():
            quantize_dynamic(source, part, per_channel=True, reduce_range=True, weight_type=QuantType.QInt8)
        save_onnx(onnx.load(part), target)


# running


class File:
    """An ONNX file as onnxruntime runs it, on the CPU; with `threads` of them, or as many as torch has."""

    def __init__(self, path: Path, threads: int | None = None) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads or torch.get_num_threads()
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.inputs = tuple(given.name for given in self.session.get_inputs())  # those that the model looks at

    def __call__(self, batch: Mapping[str, Tensor]) -> np.ndarray:
        """(example, class) logits"""
        return np.asarray(self.session.run(None, {name: batch[name].numpy() for name in self.inputs})[0])

    def logits(self, examples: Encoded, progress: Progress = no_progress) -> np.ndarray:
        """(example, class), in the batches that evaluation makes."""
        found: list[tuple[np.ndarray, np.ndarray]] = []
        for rows in by_length(examples.lengths, progress=progress):
            found.append((rows, self(examples.batch(rows))))
        made = np.zeros((len(examples), found[0][1].shape[1]), np.float32)
        for rows, values in found:
            made[rows] = values
        return made
