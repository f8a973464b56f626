"""The card: README.md of what is shipped, for whoever finds it on the hub or in a folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from corewood.data.task import ALL
from corewood.model.weights import WeightMask
from corewood.ship.judge import FILE, FULL, INT8, OWN
from corewood.ship.measure import ALONE_ENOUGH, EXPORTED, TORCH, Timing
from corewood.ship.origin import HUB
from corewood.ship.subject import Shipped, Subject

STAND_INS = {
    "mean": "A removed head or MLP gives its mean over the texts that were searched on, which is folded into a bias.",
    "zero": "A removed head or MLP gives nothing.",
}
COLUMNS = {FULL: "full model", OWN: "subnetwork", FILE: "this file", INT8: "int8 file"}


PYTHON = """```python
import onnxruntime
from transformers import AutoTokenizer

folder = "."  # where this file is
tokenizer = AutoTokenizer.from_pretrained(folder)
session = onnxruntime.InferenceSession(f"{folder}/onnx/model.onnx")
batch = tokenizer(TEXTS, padding=True, truncation=True, return_tensors="np")
logits = session.run(None, {given.name: batch[given.name].astype("int64") for given in session.get_inputs()})[0]
SHOW
```"""
SHOW_LABELS = """names = NAMES
print([names[place] for place in logits.argmax(-1)])"""
SHOW_NUMBERS = "print(logits[:, 0].tolist())"
OPTIMUM = """With optimum:

```python
from optimum.onnxruntime import ORTModelForSequenceClassification

model = ORTModelForSequenceClassification.from_pretrained(".", subfolder="onnx", file_name="model.onnx")
```"""
JAVASCRIPT = """With transformers.js:

```js
import { AutoModelForSequenceClassification, AutoTokenizer } from "@huggingface/transformers";

const tokenizer = await AutoTokenizer.from_pretrained("FOLDER");
const model = await AutoModelForSequenceClassification.from_pretrained("FOLDER", { dtype: "fp32" });
const { logits } = await model(tokenizer(TEXTS padding: true, truncation: true }));
```"""
DROPIN = (
    "With transformers alone, in the original architecture, not faster: "
    '`AutoModelForSequenceClassification.from_pretrained("dropin")`.'
)
PT2 = 'With torch alone: `torch.export.load("model.pt2").module()({})` gives the logits.'


def write_card(subject: Subject, shipped: Shipped, folder: Path) -> None:
    parts = [front(subject), title(subject, shipped), answers(shipped), size(subject, shipped), use(subject, shipped)]
    parts += [removed(subject), origin(subject), files(shipped)]
    (folder / "README.md").write_text("\n".join(part for part in parts if part), encoding="utf-8")


def front(subject: Subject) -> str:
    """What the hub reads."""
    base = subject.origin
    said = {
        "license": base.licence or "unknown",
        **({"base_model": base.base} if base.hub else {}),
        "library_name": "onnx",
        "pipeline_tag": "text-classification",
        "tags": ["onnx", "pruned", "corewood"],
    }
    return f"---\n{yaml.safe_dump(said, sort_keys=False)}---\n"


def title(subject: Subject, shipped: Shipped) -> str:
    base = subject.origin.base
    whole, left = shipped.parameters
    mask = subject.mask
    if isinstance(mask, WeightMask):
        what = (
            f"{100 * (1 - mask.share):.1f} % of its layers' weights are zero ({mask.total - len(mask):,} of {mask.total:,}). "
            "Full matrices with zeros in them take as long and as much room as before: no speed is claimed."
        )
    else:
        heads, mlps = (~mask.heads).sum(), (~mask.mlps).sum()
        what = (
            f"{heads} of {mask.heads.size} attention heads and {mlps} of {mask.mlps.size} MLPs are removed, "
            f"which leaves {100 * left / whole:.0f} % of the parameters ({left:,} of {whole:,}). {STAND_INS[subject.ablate]}"
        )
    kind = "It gives a text a number." if len(subject.model.labels) == 1 else "A text classifier."
    study = f" It was found by the study “{subject.origin.study}”, as {subject.name}." if subject.origin.study else ""
    return f"# {subject.name}, a subnetwork of {base}\n\n{kind} {what}{study}\n"


def answers(shipped: Shipped) -> str:
    cases = shipped.cases
    if cases.empty:
        return "## What it answers\n\nNo examples were given to judge it on.\n"
    whose = [who for who in COLUMNS if who in cases]
    total = int(cases.loc[cases["case"] == ALL, "n"].sum())
    rows = []
    for row in cases.to_dict("records"):
        case = "all" if row["case"] == ALL else row["case"]
        rows.append([row["dataset"], case, f"{row['n']:,}", *(percent(row[who], row["metric"]) for who in whose)])
    what = "numbers" if (cases["metric"] == "pearson").any() else "labels"
    said = (
        f"Judged from the file itself: it gives the subnetwork's {what} on all {total:,} examples "
        f"(logits at most {shipped.apart:.0e} apart)."
    )
    lines = ["## What it answers", "", said, ""]
    if shipped.finding:
        lines += [
            f"**{shipped.finding}** The int8 file is lossy, and hard cases may move while validation stands still: look",
            "at every case before you ship it.",
            "",
        ]
    return "\n".join([*lines, *table(["set", "case", "examples", *(COLUMNS[who] for who in whose)], rows)]) + "\n"


def percent(value: float, metric: str) -> str:
    if pd.isna(value):
        return ""
    return f"{100 * value:.1f} %" if metric == "accuracy" else f"{value:.3f} ({metric})"


def size(subject: Subject, shipped: Shipped) -> str:
    lines = ["## Size and speed", ""]
    if subject.of_weights:
        return "\n".join([*lines, "The file is as large as the full model's, and as fast. Zeros compress well.", ""])
    lines += [f"{summary(shipped)}", ""]
    if shipped.timings:
        lines += [*timings_table(shipped.timings), ""]
        lines += [
            "Milliseconds a text, medians of turns that took place one after the other in one run, on texts of the study's",
            "lengths. *FLOPs* is what the multiplications that are gone would give. Measure again where you will run it.",
            "",
            *([f"{busy(shipped.timings)}\n"] if busy(shipped.timings) else []),
        ]
    return "\n".join(lines)


def summary(shipped: Shipped) -> str:
    """In one sentence or two, what was measured and nothing else."""
    own = size_of(shipped, "onnx/model.onnx")
    if not shipped.full_bytes:
        return f"The ONNX file has {megabytes(own)}; its speed was not measured."
    ratios = [timing.times for timing in shipped.timings]
    low, high = (f"{value:.2f}" for value in (min(ratios), max(ratios)))
    fast = f"{low}" if low == high else f"{low} to {high}"
    text = (
        f"The file is {100 * own / shipped.full_bytes:.0f} % of the full model's ({megabytes(own)} of "
        f"{megabytes(shipped.full_bytes)}, both as ONNX: embeddings stay), and {fast} times as fast."
    )
    small = size_of(shipped, "onnx/model_quantized.onnx")
    return f"{text} The int8 file has {megabytes(small)}." if small else text


def busy(timings: Sequence[Timing]) -> str:
    """Where others used the machine at the time, so that times are too long, and ratios less sure."""
    least = min((timing.core for timing in timings), default=1.0)
    return (
        "" if least >= ALONE_ENOUGH else f"Other programs ran meanwhile (it had {least:.0%} of a core): take ratios, not times."
    )


def size_of(shipped: Shipped, start: str) -> int:
    """With what stands beside a file that is too large for one."""
    return sum(int(facts["bytes"]) for name, facts in shipped.files.items() if name in (start, f"{start}_data"))


def megabytes(size: float) -> str:
    return f"{size / 1e6:.1f} MB"


def timings_table(timings: Sequence[Timing]) -> list[str]:
    lossy = INT8 in timings[0].milliseconds
    head = [
        "threads",
        "batch",
        "full, torch",
        "full, ONNX",
        "this file",
        *(["int8"] if lossy else []),
        "faster than ONNX",
        "FLOPs",
    ]
    rows = []
    for timing in timings:
        each = [timing.milliseconds[who] for who in (TORCH, FULL, EXPORTED, *([INT8] if lossy else []))]
        ratios = [f"{timing.times:.2f}x", f"{timing.flops:.2f}x"]
        rows.append([str(timing.threads), str(timing.batch), *(f"{value:.2f}" for value in each), *ratios])
    return table(head, rows)


def use(subject: Subject, shipped: Shipped) -> str:
    two = bool(subject.sets) and len(subject.sets[0].split.texts.columns) > 1
    labels = subject.model.labels
    show = SHOW_NUMBERS if len(labels) == 1 else SHOW_LABELS.replace("NAMES", repr([*labels]))
    parts = [
        f"## Use\n\nTexts are cut at {subject.model.max_length} tokens and padded on the right; longer inputs are an error.",
        PYTHON.replace("TEXTS", '["first text"], ["second text"]' if two else '["a text"]').replace("SHOW", show),
        OPTIMUM,
        JAVASCRIPT.replace("TEXTS", '"first text", { text_pair: "second text",' if two else '"a text", {'),
    ]
    if any(name.startswith("dropin/") for name in shipped.files):
        parts.append(DROPIN)
    if "model.pt2" in shipped.files:
        parts.append(PT2.format(", ".join(subject.inputs)))
    if subject.model.net.config.model_type == "modernbert":
        parts.append("Pad on the right: ModernBERT's classifier reads the first token, which would be padding.")
    return "\n\n".join(parts) + "\n"


def removed(subject: Subject) -> str:
    """Layer by layer."""
    lines = ["## What was removed", ""]
    if isinstance(subject.mask, WeightMask):
        mask = subject.mask
        rows = []
        for name in mask.bits:
            kept = mask.kept(name)
            rows.append([f"`{name}`", f"{kept.size:,}", f"{100 * (1 - kept.mean()):.1f} %"])
        return "\n".join([*lines, *table(["parameter", "weights", "zero"], rows)]) + "\n"
    rows = [
        [str(i), numbers(~heads), numbers(heads), "kept" if mlp else "removed"]
        for i, (heads, mlp) in enumerate(zip(subject.mask.heads, subject.mask.mlps, strict=True))
    ]
    return "\n".join([*lines, *table(["layer", "heads removed", "heads kept", "MLP"], rows)]) + "\n"


def numbers(chosen: np.ndarray) -> str:
    return ", ".join(map(str, np.flatnonzero(chosen))) or "none"


def origin(subject: Subject) -> str:
    base = subject.origin
    where = f"[{base.base}]({HUB}/{base.base})" if base.hub else f"`{base.base}`, a checkpoint of its maker's own"
    told = "its card does not say, or is not at hand" if not base.licence else base.licence
    lines = ["## Where it comes from", "", f"- Base model: {where}, {base.made}", f"- Its licence: {told}"]
    if base.study:
        lines.append(f"- Study: {base.study}; subnetwork {subject.name}")
    lines += [f"- {name}: {value}" for name, value in base.facts.items() if value not in ("", None)]
    lines += [f"- Key of {name}: `{key}`" for name, key in base.keys.items()]
    lines += [
        "- Classes: " + ", ".join(subject.model.labels),
        "- Made with Corewood; `corewood.json` holds all of this for programs",
        "",
    ]
    return "\n".join(lines)


def files(shipped: Shipped) -> str:
    rows = [[f"`{name}`", f"{facts['bytes']:,}", f"`{facts['sha256']}`"] for name, facts in shipped.files.items()]
    return "\n".join(["## Files", "", *table(["file", "bytes", "SHA-256"], rows)]) + "\n"


def table(head: Iterable[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return list(lines_of(list(head), rows))


def lines_of(head: list[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'|'.join(['---'] * len(head))}|"
    for row in rows:
        cells = [" ".join(str(cell).split()).replace("|", "\\|") for cell in row]
        yield f"| {' | '.join(cells)} |"
