"""Where the heads and MLPs of each model family are: one row per family.

A head is a slice of the *input* of the attention's output projection; an MLP's output is what its last projection
gives, before the residual add. That is all a gate needs to know. The projections before them are needed to count
parameters, and to run a subnetwork with smaller ones (slim.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from corewood.errors import InputError, nearest


@dataclass(frozen=True)
class Family:
    """Dotted paths: `layers` from the base model, the others from one layer."""

    layers: str
    attention_in: tuple[str, ...]
    attention_out: str
    mlp_in: tuple[str, ...]
    mlp_out: str
    fused: Literal["no", "thirds", "per_head"] = "no"  # one projection: all queries, keys, values; or those of each head
    transposed: bool = False  # weights are kept (in, out)
    behind_attention: str = ""  # takes what attention gives and its input, in models whose classifier reads the first token
    position_offset: int = 0  # positions that no token has, since they begin after the padding index
    # for running it with fewer heads: what else is made head by head, and which attributes of the attention hold widths
    relative: tuple[str, ...] = ()  # projections of relative positions, in models that have them
    position_bias: bool = False  # the attention's third argument has an axis of heads
    features_in: str = ""  # the attribute that holds the width of all heads together,
    heads_in: str = ""  # their number,
    queries_in: str = ""  # and how many queries share a key
    # keys of the config that give a bias to the attention's and to the MLP's last projection, where these may have none
    attention_bias: str = ""
    mlp_bias: str = ""

    @property
    def attention(self) -> str:
        """What computes attention, up to its output projection or with it."""
        return self.attention_in[0].rpartition(".")[0]

    @property
    def mlp(self) -> str:
        """What computes an MLP, up to its last projection or with it."""
        return self.mlp_in[0].rpartition(".")[0]


BERT = Family(
    "encoder.layer",
    ("attention.self.query", "attention.self.key", "attention.self.value"),
    "attention.output.dense",
    ("intermediate.dense",),
    "output.dense",
    behind_attention="attention.output",
)
ROBERTA = replace(BERT, position_offset=2)
LLAMA = Family(
    "layers",
    ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "self_attn.o_proj",
    ("mlp.gate_proj", "mlp.up_proj"),
    "mlp.down_proj",
    queries_in="num_key_value_groups",
)

FAMILIES: dict[str, Family] = {  # by the config's model_type
    "bert": BERT,
    "roberta": ROBERTA,
    "xlm-roberta": ROBERTA,
    "camembert": ROBERTA,
    "electra": BERT,
    "mpnet": replace(
        ROBERTA,
        attention_in=("attention.attn.q", "attention.attn.k", "attention.attn.v"),
        attention_out="attention.attn.o",
        behind_attention="",
        position_bias=True,
        features_in="all_head_size",
    ),
    "distilbert": Family(
        "transformer.layer",
        ("attention.q_lin", "attention.k_lin", "attention.v_lin"),
        "attention.out_lin",
        ("ffn.lin1",),
        "ffn.lin2",
    ),
    "gpt2": Family(
        "h",
        ("attn.c_attn",),
        "attn.c_proj",
        ("mlp.c_fc",),
        "mlp.c_proj",
        fused="thirds",
        transposed=True,
        features_in="split_size",
    ),
    "gpt_neox": Family(
        "layers",
        ("attention.query_key_value",),
        "attention.dense",
        ("mlp.dense_h_to_4h",),
        "mlp.dense_4h_to_h",
        fused="per_head",
        attention_bias="attention_bias",
    ),
    "llama": replace(LLAMA, attention_bias="attention_bias", mlp_bias="mlp_bias"),
    "mistral": LLAMA,
    "qwen2": LLAMA,
    "qwen3": replace(LLAMA, attention_bias="attention_bias"),
    "modernbert": Family(
        "layers",
        ("attn.Wqkv",),
        "attn.Wo",
        ("mlp.Wi",),
        "mlp.Wo",
        fused="thirds",
        attention_bias="attention_bias",
        mlp_bias="mlp_bias",
    ),
    "deberta-v2": replace(
        BERT,
        attention_in=("attention.self.query_proj", "attention.self.key_proj", "attention.self.value_proj"),
        behind_attention="",  # a convolution may want all tokens
        relative=("attention.self.pos_key_proj", "attention.self.pos_query_proj"),
        heads_in="num_attention_heads",
    ),
}

REFUSED = {
    "albert": "ALBERT shares one layer over all depths, so its heads cannot be closed one by one",
}


def family(model_type: str) -> Family:
    """The row of this model type, or an error that says which there are."""
    if model_type in REFUSED:
        raise InputError(f"model type {model_type!r}: {REFUSED[model_type]}")
    if model_type not in FAMILIES:
        near, known = nearest(model_type, FAMILIES), ", ".join(FAMILIES)
        raise InputError(
            f"model type {model_type!r} is not in the architecture table.{near} Known: {known}. "
            "A new family is one row in corewood/model/families.py."
        )
    return FAMILIES[model_type]
