"""Exported files: how fast and how large they are beside the full model's, and what FLOPs predict.

    .venv/bin/python bench/export.py [--rounds N] [--study studies/demo.yaml --store corewood-store]

All are ONNX files, on one thread, in turn, on the generated task's texts. Without a study, heads of MiniLM are removed at
random, then MLPs as well; with one that has run, the masks are those of its subnetworks. `of FLOPs` is the speed that was
measured over the speed that the multiplications that are gone would give; within 15 % at batch 32 is what to expect.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from common import minilm, texts

from corewood.data.encode import Encoded
from corewood.model.load import Model
from corewood.model.mask import Mask
from corewood.model.reference import reference
from corewood.model.slim import slim
from corewood.ship.measure import TOGETHER, drawn, flops, in_turn
from corewood.ship.of_study import results_of, subject_of
from corewood.ship.onnx_file import File, write_onnx
from corewood.spec import read_study
from corewood.store.store import Store
from corewood.study.plan import make_plan
from corewood.study.results import searched

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
NEAR = 0.15


def random_masks(model: Model) -> Iterator[tuple[str, Mask]]:
    shape = (model.units.layers, model.units.heads)
    order = np.random.default_rng(0).permutation(shape[0] * shape[1])
    for share, closed in ((0.5, 0), (0.7, 0), (0.7, 2), (0.7, 4)):
        mlps = np.arange(shape[0]) >= closed
        name = f"{share:.0%} of heads" + (f", {closed} MLPs" if closed else "")
        yield name, Mask((order >= share * len(order)).reshape(shape), mlps)


def subjects(study: Path | None, store: Path) -> tuple[Model, Encoded, list[tuple[str, Mask]]]:
    """A model with its means, texts, and masks by name."""
    torch.set_num_threads(1)
    if study is None:
        model = minilm()
        _, examples = next(texts(model, None, 256))
        model.means = reference(model, examples).means
        return model, examples, [*random_masks(model)]
    results = results_of(make_plan(read_study(study), study.parent), Store(store))
    rows = [row for row in results.rows if searched(row)]
    first = subject_of(results, rows[0].name)
    return first.model, first.sets[0].encoded, [(row.name, results.mask(row)) for row in rows]


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--study", type=Path, help="a study that has run")
    parser.add_argument("--store", type=Path, default=Path("corewood-store"))
    given = parser.parse_args()
    model, examples, masks = subjects(given.study, given.store)
    batches = drawn(examples)
    print(f"{'removed':24} {'parameters':>10} {'size':>6} {'batch':>6} {'full':>8} {'file':>8}   faster   FLOPs  of FLOPs")
    with TemporaryDirectory() as folder:
        whole = Path(folder) / "full.onnx"
        write_onnx(model.net, INPUTS, model.max_length, whole)
        for name, mask in masks:
            small, path = slim(model, mask), Path(folder) / "small.onnx"
            write_onnx(small, INPUTS, model.max_length, path)
            left = small.num_parameters() / model.net.num_parameters()
            size = path.stat().st_size / whole.stat().st_size
            for count, few in batches.items():
                predicted = flops(model.net, few[0]) / flops(small, few[0])
                seconds = in_turn({"full": File(whole, 1), "file": File(path, 1)}, few, given.rounds)
                each = [1000 * seconds[who] / (count * len(few)) for who in ("full", "file")]
                times = each[0] / each[1]
                far = "  beyond 15 %" if count == TOGETHER and abs(times / predicted - 1) > NEAR else ""
                numbers = f"{each[0]:8.2f} {each[1]:8.2f} {times:7.2f}x {predicted:6.2f}x {times / predicted:9.2f}"
                print(f"{name:24} {left:10.0%} {size:6.0%} {count:6} {numbers}{far}", flush=True)


if __name__ == "__main__":
    main()
