"""Sets whose files are known: which columns hold what, in each of the forms they are handed out in.

A layout fills in what a source leaves open. Where a set comes with different column names (GLUE's TSV, the hub, HANS'
text file), the first name that the file has is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from corewood.errors import InputError
from corewood.spec.tasks import GLUE_LABELS, SourceSpec

# HANS (McCoy et al. 2019): the first four names are those of the Heuristic Core, table 1; the others follow their manner.
# In brackets what would tell two cases of one name apart: LO lexical overlap, S subsequence, C constituent; E entailed.
HANS_CASES = {
    "ln_subject/object_swap": "SO-Swap",
    "ln_preposition": "Prep",
    "cn_embedded_under_if": "Embed-If",
    "cn_embedded_under_verb": "Embed-Verb",
    "ln_relative_clause": "Rel-Clause [LO]",
    "ln_passive": "Passive",
    "ln_conjunction": "Conj [LO]",
    "sn_NP/S": "NP/S",
    "sn_PP_on_subject": "PP-Subject",
    "sn_relative_clause_on_subject": "Rel-Subject",
    "sn_past_participle": "Participle",
    "sn_NP/Z": "NP/Z",
    "cn_after_if_clause": "After-If",
    "cn_disjunction": "Disjunction",
    "cn_adverb": "Adverb [C]",
    "le_relative_clause": "Rel-Clause [LO-E]",
    "le_around_prepositional_phrase": "Around-Prep [LO-E]",
    "le_around_relative_clause": "Around-Rel [LO-E]",
    "le_conjunction": "Conj [LO-E]",
    "le_passive": "Passive [LO-E]",
    "se_conjunction": "Conj [S-E]",
    "se_adjective": "Adjective [S-E]",
    "se_understood_object": "Understood-Obj [S-E]",
    "se_relative_clause_on_obj": "Rel-Obj [S-E]",
    "se_PP_on_obj": "PP-Obj [S-E]",
    "ce_embedded_under_since": "Embed-Since [C-E]",
    "ce_after_since_clause": "After-Since [C-E]",
    "ce_conjunction": "Conj [C-E]",
    "ce_adverb": "Adverb [C-E]",
    "ce_embedded_under_verb": "Embed-Verb [C-E]",
}
HANS_GROUPS = {"lexical_overlap": "lexical overlap", "subsequence": "subsequence", "constituent": "constituent"}


@dataclass(frozen=True)
class Known:
    """Alternatives stand in the order in which they are tried."""

    text: tuple[tuple[str, ...], ...]
    label: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    fold: Mapping[str, str] = field(default_factory=dict)
    case: str | None = None
    group: str | None = None
    case_names: Mapping[str, str] = field(default_factory=dict)  # spelling in the file -> name in tables and charts
    group_names: Mapping[str, str] = field(default_factory=dict)
    unlabelled: tuple[str, ...] = ()  # labels of rows on which the annotators did not agree: left out
    numbers: tuple[str, ...] = ()  # names of the labels 0, 1, ..., where a file has those
    bare: tuple[str, ...] = ()  # the columns of a file without a header
    broken: str = "refuse"
    bytes_literals: bool = False  # texts may stand as b'...', as PAWS' own script writes them


NLI_TEXT = (("premise", "hypothesis"), ("sentence1", "sentence2"))
PAIR = (("sentence1", "sentence2"),)
HIDDEN = ("-1", "-1.0")  # the hub's label of rows whose label is kept secret
LAYOUTS: dict[str, Known] = {
    "cola": Known(
        (("sentence",),), ("label",), numbers=GLUE_LABELS["cola"], unlabelled=HIDDEN,
        bare=("source", "label", "star", "sentence"),
    ),
    "sst2": Known((("sentence",),), ("label",), numbers=GLUE_LABELS["sst2"], unlabelled=HIDDEN),
    "mrpc": Known(
        (*PAIR, ("#1 String", "#2 String")), ("label", "Quality"), numbers=GLUE_LABELS["mrpc"], unlabelled=HIDDEN,
    ),
    "stsb": Known(PAIR, ("score", "label"), unlabelled=HIDDEN),
    "qqp": Known(
        (("question1", "question2"),), ("is_duplicate", "label"),
        {"0": "not equivalent", "1": "equivalent", "not_duplicate": "not equivalent", "duplicate": "equivalent"},
        unlabelled=HIDDEN, broken="drop",
    ),
    "mnli": Known(NLI_TEXT, ("label", "gold_label"), numbers=GLUE_LABELS["mnli"], unlabelled=("-", *HIDDEN)),
    "qnli": Known((("question", "sentence"),), ("label",), numbers=GLUE_LABELS["qnli"], unlabelled=HIDDEN),
    "rte": Known(PAIR, ("label",), numbers=GLUE_LABELS["rte"], unlabelled=HIDDEN),
    "wnli": Known(PAIR, ("label",), numbers=GLUE_LABELS["wnli"], unlabelled=HIDDEN),
    "hans": Known(
        NLI_TEXT, ("label", "gold_label"), {"0": "entailment", "1": "non-entailment"},
        {"neutral": "non-entailment", "contradiction": "non-entailment"}, "subcase", "heuristic", HANS_CASES, HANS_GROUPS,
    ),
    "paws": Known(PAIR, ("label",), {"0": "not equivalent", "1": "equivalent"}, bytes_literals=True),
}  # fmt: skip


def layout_of(source: SourceSpec) -> Known:
    """What its layout says of a source, where the source itself says nothing else."""
    known = LAYOUTS[source.layout] if source.layout else Known((), ("label",))
    if source.text:
        known = replace(known, text=(source.text,))
    return replace(known, broken=source.broken) if "broken" in source.model_fields_set else known


def lay_out(source: SourceSpec, known: Known, columns: Sequence[str], where: str) -> SourceSpec:
    """The source with every column named."""
    there = set(columns)
    text = source.text or next((names for names in known.text if there.issuperset(names)), ())
    if not text:
        tried = " or ".join(" and ".join(names) for names in known.text)
        raise InputError(f"{where}: layout {source.layout} expects the columns {tried}; the columns are: {', '.join(columns)}")
    label = source.label or next((name for name in known.label if name in there), known.label[0])
    return source.model_copy(
        update={
            "text": text,
            "label": label,
            "labels": source.labels or known.labels,
            "fold": source.fold or known.fold,
            "case": source.case or (known.case if known.case in there else None),
            "group": source.group or (known.group if known.group in there else None),
        }
    )
