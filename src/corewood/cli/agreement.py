"""What `corewood agree` prints."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.markup import escape

from corewood.analyse.stability import Stability, pairs, unit_stability
from corewood.cli.screen import screen, table
from corewood.errors import InputError
from corewood.model.mask_files import KINDS, LAST, Named, check_shapes, having, mask_files, read_file

ROWS = 20  # pairs on the screen
MOST = 500  # masks: each is compared with every other


def say_agreement(masks: Sequence[Path], last_is_mlp: bool, out: Path | None) -> pd.DataFrame:
    """The table of pairs comes back."""
    found = read_all(masks, last_is_mlp)
    console = screen()
    say_what_was_read(console, found, last_is_mlp)
    comparable = [kind for kind in KINDS if len(having(found, kind)) > 1]
    tables = [show(console, having(found, kind), kind, out) for kind in comparable]
    picture(console, {kind: having(found, kind) for kind in comparable})
    return pd.concat(tables)


def read_all(paths: Sequence[Path], last_is_mlp: bool) -> list[Named]:
    files = [file for path in paths for file in mask_files(path)]
    twice = {file for file, times in Counter(file.resolve() for file in files).items() if times > 1}
    if twice:
        raise InputError(f"{min(twice)}: given twice; a mask agrees with itself")
    top = os.path.commonpath([os.path.abspath(file.parent) for file in files])
    found = [mask for file in files for mask in read_file(file, os.path.relpath(file, top), last_is_mlp)]
    if len(found) < 2:
        raise InputError("agreement needs at least two masks, not one; give more files, or a folder of them")
    if len(found) > MOST:
        raise InputError(f"{len(found):,} masks, and {MOST} at a time are the most: each is compared with every other")
    check_shapes(found, last_is_mlp)
    if max(len(having(found, kind)) for kind in KINDS) < 2:
        raise InputError(
            f"agreement needs two masks of heads, or two of MLPs: {found[0]}, {found[1]} (an .npy of one row holds the MLPs of "
            "all layers; heads are layers x heads)"
        )
    return found


def flat(group: Sequence[Named], kind: str) -> np.ndarray:
    """(mask, unit) bool"""
    return np.stack([mask.parts[kind].ravel() for mask in group])


def say_what_was_read(console: Console, found: Sequence[Named], last_is_mlp: bool) -> None:
    console.print(f"{len(found)} masks", style="bold")
    for kind in KINDS:
        group = having(found, kind)
        if not group:
            continue
        sizes, shape = flat(group, kind).sum(1), group[0].parts[kind].shape
        what = f"{shape[0]} layers x {shape[1]} heads" if kind == "heads" else f"{shape[0]} MLPs"
        who = "each" if len(group) == len(found) else f"in {len(group)} of them"
        span = f"{sizes.min()} to {sizes.max()}, on average {sizes.mean():.1f}" if len(set(sizes)) > 1 else f"{sizes[0]}"
        console.print(f"  {what} {who}; kept: {span}")
        if len(group) == 1:
            console.print(f"  Only {group[0].name} has them: nothing to compare.", style="yellow", markup=False)
        if kind == "heads" and shape[1] % 2 and not last_is_mlp and any(re.search(r"\.npy(\[\d+\])?$", m.name) for m in group):
            console.print(f"  An odd number of heads: {LAST}.", style="yellow")


def show(console: Console, group: Sequence[Named], kind: str, out: Path | None) -> pd.DataFrame:
    """The numbers over all masks, then those pair by pair; the latter come back."""
    kept, layers = flat(group, kind), len(group[0].parts[kind])
    console.print()
    console.print("Heads" if kind == "heads" else "MLPs", style="bold")
    over_all(console, unit_stability(kept, np.repeat(np.arange(layers), kept.shape[1] // layers)))
    found = pairs(kept, [mask.name for mask in group])
    console.print()
    pair_by_pair(console, found, out)
    found.insert(0, "kind", "head" if kind == "heads" else "mlp")
    return found


def over_all(console: Console, found: Stability) -> None:
    layers = found.survivors_p_layers == found.survivors_p_layers  # NaN where each layer has one unit
    shown = table(("do masks keep the same ones?",), ("masks", "random", "p", *(("in layers", "p") if layers else ())))
    rows = (("Fleiss' kappa", "fleiss", 3, 3), (f"kept by all {found.masks} (super-survivors)", "survivors", 0, 2))
    facts = vars(found)
    for title, name, exact, digits in rows:
        cells = [number(facts[name], exact), number(facts[f"{name}_expected"], digits), p_value(facts[f"{name}_p"])]
        if layers:
            cells += [number(facts[f"{name}_expected_layers"], digits), p_value(facts[f"{name}_p_layers"])]
        shown.add_row(title, *cells)
    console.print(shown)
    if layers:
        console.print("in layers: random masks that keep as many in each layer", style="dim")
    console.print(
        f"Do all masks have the same size? Cochran's Q {number(found.q, 2)}, p {p_value(found.q_p)} "
        f"(Q of random masks of these sizes: {number(found.q_expected, 2)})."
    )
    console.print("Q is about how many units masks keep, not about which.", style="dim")


def pair_by_pair(console: Console, found: pd.DataFrame, out: Path | None) -> None:
    shown = table(("one", "other"), ("Jaccard", "random", "kappa", "p", "p (Holm)", ""), fold=True)
    short = short_names({*found["one"], *found["other"]})
    for row in found.head(ROWS).to_dict("records"):
        shares = (number(row[c], 3) for c in ("jaccard", "jaccard_expected", "kappa"))
        tests = p_value(row["p"]), p_value(row["p_holm"]), "*" if row["real"] else ""
        shown.add_row(escape(short[row["one"]]), escape(short[row["other"]]), *shares, *tests)
    console.print(shown)
    if len(found) > ROWS:
        where = "--out FILE.csv writes them all" if out is None else f"all are in {out}"
        console.print(f"... and {len(found) - ROWS} more pairs: {where}", markup=False)
    console.print(
        f"* {int(found['real'].sum())} of {len(found)} pairs share more than random masks of the same sizes do "
        "(5 %, after Holm's correction); random kappa is 0",
        style="dim",
    )


def short_names(names: set[str]) -> dict[str, str]:
    """Without file endings, where that leaves them apart."""
    short = {name: re.sub(r"\.(npy|json|safetensors)(?=$|\[)", "", name) for name in names}
    return short if len(set(short.values())) == len(names) else {name: name for name in names}


def picture(console: Console, groups: Mapping[str, Sequence[Named]]) -> None:
    """Layers x heads, MLPs in a last column: how many masks keep each."""
    marks = {}  # (layer, head) and (layer, 1)
    for kind, group in groups.items():
        votes = flat(group, kind).sum(0).reshape(len(group[0].parts[kind]), -1)
        marks[kind] = [[mark(int(v), len(group)) for v in row] for row in votes]
    heads, mlps = marks.get("heads"), marks.get("mlps")
    wide = len(str(len(heads[0]) - 1)) + 1 if heads else 0
    title = "".join(f"{i:>{wide}}" for i in range(len(heads[0]))) if heads else ""
    some = "tenths of them, rounded down" if max(map(len, groups.values())) > 10 else "how many"
    console.print()
    console.print("Which masks keep it: . none, # all, else " + some, style="bold")
    console.print(f"    {title}{'  MLP' if mlps else ''}", style="dim", soft_wrap=True)
    for i in range(len(heads or mlps or [])):
        row = "".join(f"{m:>{wide}}" for m in heads[i]) if heads else ""
        console.print(f"L{i:<3}{row}{'    ' + mlps[i][0] if mlps else ''}", markup=False, soft_wrap=True)


def mark(votes: int, masks: int) -> str:
    if votes in (0, masks):
        return "#" if votes else "."
    return str(votes if masks <= 10 else 10 * votes // masks)


def number(value: float, digits: int) -> str:
    if value != value:
        return "-"
    text = f"{value:.{digits}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def p_value(p: float) -> str:
    return "-" if p != p else "<0.0001" if p < 0.0001 else f"{p:.4f}"
