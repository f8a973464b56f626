"""A checkpoint as others wrote it: its config, its tokenizer, its weights. Nothing in it is run, and nothing is made up for it.

transformers takes what it finds: without tokenizer files it makes a tokenizer that knows five words, and weights that are
missing or of another shape it draws anew. Here that is refused, before anything runs.
"""

from __future__ import annotations

import numbers
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import transformers

from corewood.errors import InputError
from corewood.model.families import FAMILIES, family
from corewood.untrusted import parse_json, read_bytes, why

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

CONFIG_BYTES = 10_000_000
SHORTEST = 4  # tokens that a model must have room for
# sizes in a config.json, by the names that the families have for them, and the most of each
SIZES = {
    "num_hidden_layers n_layer n_layers num_attention_heads n_head n_heads num_key_value_heads": 1_000,
    "hidden_size n_embd dim embedding_size intermediate_size n_inner hidden_dim head_dim": 1_000_000,
    "max_position_embeddings n_positions vocab_size": 100_000_000,
    "num_labels": 10_000,
}
LIMITS = {name: most for names, most in SIZES.items() for name in names.split()}
VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model", "*.tiktoken")
TOLD = 4  # tensors that a message names


def quiet_transformers() -> None:
    """Progress bars and load reports are ours to give."""
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()


# the config


def read_config(source: str, revision: str | None = None) -> Any:
    """A folder's, or a hub model's; of a family that Corewood knows, with sizes that a model can have."""
    quiet_transformers()
    local, pinned = Path(source).is_dir(), revision or "main"
    try:
        if local:
            raw = parse_json(read_bytes(Path(source) / "config.json", CONFIG_BYTES), f"model {source}: its config.json ")
        else:
            raw, _ = transformers.PreTrainedConfig.get_config_dict(source, revision=pinned)
        check_sizes(raw, f"model {source}: its config.json")
        config = transformers.AutoConfig.from_pretrained(source, revision=pinned, trust_remote_code=False)
    except InputError:
        raise
    except Exception as problem:  # transformers raises many kinds for what is no config of its own
        what = f"no such folder, and it could not be had from the hub ({why(problem)}). Check the name, or give a folder."
        if local:
            known = ", ".join(FAMILIES)
            what = f"its config.json is of no architecture that transformers knows ({why(problem)}); known to Corewood: {known}"
        raise InputError(f"model {source}: {what}") from None
    family(config.model_type)
    return config


def check_sizes(raw: Any, who: str) -> None:
    if not isinstance(raw, Mapping):
        raise InputError(f"{who} is no object with keys, but {type(raw).__name__}")
    if not isinstance(raw.get("model_type", ""), str):
        raise InputError(f"{who}: model_type is a name, not {raw['model_type']!r}")
    for name, most in LIMITS.items():
        value = raw.get(name)
        if value is not None and not (type(value) is int and 1 <= value <= most):
            raise InputError(f"{who}: {name} is a whole number from 1 to {most:,}, not {value!r:.60}")
    names = raw.get("id2label")
    if names is None:
        return
    if not isinstance(names, Mapping) or len(names) > LIMITS["num_labels"] or {*names} != {*map(str, range(len(names)))}:
        most = LIMITS["num_labels"]
        raise InputError(f"{who}: id2label names the classes 0, 1, ... in their order, {most:,} at the most; this one does not")


def class_names(config: Any) -> tuple[str, ...]:
    return tuple(str(config.id2label[i]) for i in range(config.num_labels))


# the tokenizer


def read_tokenizer(source: str, pad_token: str | None = None, revision: str | None = None) -> PreTrainedTokenizerBase:
    quiet_transformers()
    folder = Path(source)
    if folder.is_dir() and not any(path.is_file() for names in VOCABULARIES for path in folder.glob(names)):
        raise InputError(
            f"model {source}: there is no tokenizer beside its weights ({', '.join(VOCABULARIES[:3])} or the like), and every "
            "word would be unknown; copy the files of the model it was trained from, for instance "
            f"AutoTokenizer.from_pretrained(...).save_pretrained({source!r})"
        )
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(source, revision=revision or "main", trust_remote_code=False)
        if pad_token is not None:
            tokenizer.pad_token = pad_token
        known, padding, longest = tokenizer.get_vocab(), tokenizer.pad_token_id, tokenizer.model_max_length
        unknown = tokenizer.unk_token_id  # asked for ever where that token is not in the vocabulary
        read = [tokenizer(*texts, verbose=False)["input_ids"] for texts in (["a"], ["a", "b"])]  # what is wrong may show now
    except BaseException as problem:  # the tokenizers' own library is not Python's, and panics
        if isinstance(problem, (KeyboardInterrupt, SystemExit)):
            raise
        raise InputError(f"model {source}: its tokenizer cannot be loaded ({why(problem)})") from None
    if not known or not all(read):
        what = "makes nothing of a text" if known else "knows no word"
        raise InputError(f"model {source}: its tokenizer {what}; copy the files of the model it was trained from")
    if isinstance(longest, bool) or not isinstance(longest, (int, float)) or not longest >= SHORTEST:
        what = f"model_max_length is {longest!r}, which is no number of tokens; correct it in tokenizer_config.json"
        raise InputError(f"model {source}: its tokenizer's {what}")
    if padding is None:
        hint = tokenizer.eos_token or "<pad>"
        raise InputError(
            f"model {source}: its tokenizer has no padding token, which batches need; "
            f"set model.pad_token, for instance to its end token: pad_token: {hint!r}"
        )
    if padding == unknown and pad_token is not None and pad_token != tokenizer.unk_token:
        raise InputError(f"model {source}: pad_token {pad_token!r} is not in its vocabulary")
    return tokenizer


def check_vocabulary(tokenizer: PreTrainedTokenizerBase, config: Any, source: str) -> None:
    """Every token that a text can have needs an embedding, and most embeddings a token: some are left over for rounder sizes,
    and some special tokens are never used."""
    added, rows = tokenizer.get_added_vocab(), int(config.vocab_size)
    words = [number for token, number in tokenizer.get_vocab().items() if token not in added]
    last = max([*words, tokenizer.pad_token_id, *tokenizer("a", "b", verbose=False)["input_ids"]])
    if last >= rows or len(words) + len(added) < rows / 2:
        raise InputError(
            f"model {source}: its tokenizer has {len(words) + len(added):,} tokens, numbered up to {last:,}, and its embedding "
            f"matrix {rows:,} rows; this is not the tokenizer it was trained with"
        )


def positions(config: Any, tokenizer: PreTrainedTokenizerBase, max_length: int | None = None) -> int:
    """The longest text in tokens: what was asked for, the tokenizer's limit, the model's positions."""
    if max_length is not None and not (isinstance(max_length, numbers.Integral) and max_length >= SHORTEST):
        raise InputError(f"max_length={max_length!r}: give a whole number of tokens, {SHORTEST} or more")
    own = getattr(config, "max_position_embeddings", 10**9) - family(config.model_type).position_offset
    room = int(min(10**9 if max_length is None else max_length, tokenizer.model_max_length, own))
    if room < SHORTEST:
        raise InputError(f"the model has room for {room} tokens, and a text needs {SHORTEST}; look at max_position_embeddings")
    return room


# the weights


def open_weights(source: str, name: str, revision: str | None = None, **more: Any) -> tuple[PreTrainedModel, dict[str, Any]]:
    """A classifier, and what transformers says of how the weights fitted; for `check_fit` to judge."""
    quiet_transformers()
    try:
        net, info = transformers.AutoModelForSequenceClassification.from_pretrained(
            source,
            revision=revision or "main",
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            trust_remote_code=False,
            **more,
        )
    except Exception as problem:  # of transformers, torch, safetensors, pickle
        raise InputError(f"model {name}: cannot be loaded as a classifier ({why(problem)})") from None
    return net, info


def check_head(source: str, revision: str | None = None, name: str = "", new_head: bool = False) -> list[str]:
    """Whether a checkpoint is a classifier or, with `new_head`, can become one: by the names and shapes of its weights alone.

    What the user should know of it comes back.
    """
    net, info = open_weights(source, name or source, revision, device_map="meta")
    return check_fit(net, info, name or source, new_head)


def check_fit(net: PreTrainedModel, info: Mapping[str, Any], name: str, new_head: bool) -> list[str]:
    """Only the classification head may be new, and a pooler that the checkpoint never had."""
    inside = f"{net.base_model_prefix}."
    own = {key for key, _ in net.named_parameters() if key.startswith(inside)}
    missing = {*info["missing_keys"]}
    pooler = {key for key in own if key.startswith(f"{inside}pooler.")}
    pooler = pooler if pooler <= missing else set()
    lost = sorted((missing & own) - pooler)
    if lost:
        raise InputError(
            f"model {name}: {len(lost)} of the tensors its config.json asks for are not in its weights ({several(lost)}), and "
            "would be drawn by chance; give the whole checkpoint"
        )
    other = [f"{key}: {shape(found)}, not {shape(wanted)}" for key, found, wanted in sorted(info["mismatched_keys"])]
    other = [said for said in other if not new_head or said.partition(":")[0] in own]
    if other:
        raise InputError(
            f"model {name}: {len(other)} of its tensors have other shapes than its config.json says ({several(other)}), and "
            "would be drawn by chance; config.json and weights are of two models"
        )
    check_depth(net, info["unexpected_keys"], name)
    if missing and not new_head:
        raise headless(name, missing)
    return [f"model {name}: has no pooler of its own, so fine-tuning begins with a new one"] if pooler else []


def check_depth(net: PreTrainedModel, unexpected: Iterable[str], name: str) -> None:
    layers = int(net.config.num_hidden_layers)
    numbered = re.compile(rf"(?:.+\.)?{re.escape(family(net.config.model_type).layers)}\.(\d+)\.")
    depths = [int(found[1]) for key in unexpected if (found := numbered.match(key))]
    if depths and max(depths) >= layers:
        raise InputError(
            f"model {name}: its config.json says {layers} layers, and its weights have {max(depths) + 1}; config.json and "
            "weights are of two models"
        )


def several(names: list[str]) -> str:
    return ", ".join(names[:TOLD]) + (", ..." if len(names) > TOLD else "")


def shape(size: Iterable[int]) -> str:
    return " x ".join(map(str, size))


def headless(source: str, missing: Iterable[str]) -> InputError:
    return InputError(
        f"model {source}: it has no trained classification head ({', '.join(sorted(missing)[:2])} missing); "
        "add fine_tune to the study, or give a fine-tuned checkpoint; in Python, cw.fine_tune(checkpoint, task, steps=...)"
    )
