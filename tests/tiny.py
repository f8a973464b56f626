"""Tiny random models of every family, and a tokenizer for the generated task's words."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers as t

from corewood.data import overlap
from corewood.model.load import Model, wrap

SIZE = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, max_position_embeddings=64)
TOKENS = dict(pad_token_id=0, bos_token_id=2, eos_token_id=3)

# family -> (config class, model class, settings beside SIZE)
FAMILIES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "bert": (t.BertConfig, t.BertForSequenceClassification, {}),
    "roberta": (t.RobertaConfig, t.RobertaForSequenceClassification, {}),
    "electra": (t.ElectraConfig, t.ElectraForSequenceClassification, dict(embedding_size=16)),
    "mpnet": (t.MPNetConfig, t.MPNetForSequenceClassification, {}),
    "distilbert": (t.DistilBertConfig, t.DistilBertForSequenceClassification, {}),
    "gpt2": (t.GPT2Config, t.GPT2ForSequenceClassification, {}),
    "gpt_neox": (t.GPTNeoXConfig, t.GPTNeoXForSequenceClassification, {}),
    "llama": (t.LlamaConfig, t.LlamaForSequenceClassification, dict(num_key_value_heads=2)),
    "mistral": (t.MistralConfig, t.MistralForSequenceClassification, dict(num_key_value_heads=2)),
    "qwen2": (t.Qwen2Config, t.Qwen2ForSequenceClassification, dict(num_key_value_heads=2)),
    "qwen3": (t.Qwen3Config, t.Qwen3ForSequenceClassification, dict(num_key_value_heads=2, head_dim=16)),
    "modernbert": (t.ModernBertConfig, t.ModernBertForSequenceClassification, dict(cls_token_id=2, sep_token_id=3)),
    "deberta-v2": (t.DebertaV2Config, t.DebertaV2ForSequenceClassification, {}),
}
DECODERS = {"gpt2", "gpt_neox", "llama", "mistral", "qwen2", "qwen3"}


@cache
def words() -> tuple[str, ...]:
    """All words of the generated task, in a fixed order."""
    task = overlap.overlap(train=3000, per_case=50)
    found: set[str] = set()
    for split in (task.train, *task.splits.values()):
        assert split is not None
        for column in ("first", "second"):
            for text in split.frame[column]:
                found |= set(text.lower().replace(".", " .").replace(",", " ,").split())
    return tuple(sorted(found))


def tokenizer(padding_side: str = "right", types: bool = True, max_length: int = 64) -> t.PreTrainedTokenizerFast:
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {word: i for i, word in enumerate([*special, *words()])}
    core = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    core.normalizer = tokenizers.normalizers.Lowercase()
    core.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    core.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = ["input_ids", "token_type_ids", "attention_mask"] if types else ["input_ids", "attention_mask"]
    return t.PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        padding_side=padding_side,
        model_max_length=max_length,
        model_input_names=names,
    )


def net(
    family: str = "bert", labels: tuple[str, ...] = ("entailment", "non-entailment"), seed: int = 0, **settings: Any
) -> Any:
    config_class, model_class, extra = FAMILIES[family]
    config = config_class(vocab_size=len(words()) + 5, **{**SIZE, **TOKENS, **extra, **settings})
    config.id2label = dict(enumerate(labels))
    config.label2id = {label: i for i, label in enumerate(labels)}
    torch.manual_seed(seed)
    made = model_class(config).eval()
    with torch.no_grad():  # the usual 0.02 leaves a random model nearly constant
        for parameter in made.parameters():
            if parameter.dim() > 1:
                parameter.mul_(8)
    return made


def model(family: str = "bert", padding_side: str = "right", **settings: Any) -> Model:
    types = family in ("bert", "electra", "deberta-v2")
    return wrap(net(family, **settings), tokenizer(padding_side, types), family)


def checkpoint(folder: Path, family: str = "bert", **settings: Any) -> Path:
    """A model's folder, as a user would have one."""
    net(family, **settings).save_pretrained(folder)
    tokenizer(types=family in ("bert", "electra", "deberta-v2")).save_pretrained(folder)
    return folder
