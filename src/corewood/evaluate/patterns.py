"""Pattern types of attention maps, told by a small image classifier (lottery-ticket paper, section 5.2).

It is trained on generated maps, and on the user's own annotated ones where there are some; how often it is right is measured
on generated maps it has not seen, on real maps labelled by hand (folder maps/), and on half of the user's own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import compress
from pathlib import Path

import numpy as np
import pandas as pd
import safetensors.torch
import torch
from torch import Tensor, nn
from torch.nn import functional

from corewood.data.encode import Words, by_length
from corewood.errors import InputError, nearest
from corewood.evaluate.attention import attention_of, normed_attention_of
from corewood.evaluate.generated_maps import TYPES, generated_maps
from corewood.model.arrays import read_npy
from corewood.model.load import Model
from corewood.model.reference import Progress, no_progress

SIDE = 32  # pixels of a prepared map
TRAINING, HELD_OUT, STEPS, BATCH = 6000, 1000, 900, 64
OWN_SHARE = 0.3  # of the training maps are the user's own, repeated, where there are some
FAST = torch.channels_last  # a third less time on a processor
SHIPPED = Path(__file__).parent / "maps"


def prepare(values: np.ndarray, name: str = "map") -> np.ndarray:
    """One square map of any size -> (SIDE, SIDE) float32 in [0, 1]; `name` is for the error."""
    values = np.asarray(values)
    if values.ndim != 2 or values.shape[0] != values.shape[1] or not values.size:
        raise InputError(f"{name}: an attention map is square (query, key); this has the shape {values.shape}")
    if not np.issubdtype(values.dtype, np.number) or not np.isfinite(values).all() or (values < 0).any():
        raise InputError(f"{name}: an attention map holds finite numbers of zero or more")
    return prepare_all(torch.from_numpy(values[None].astype(np.float32)))[0].numpy()


def prepare_all(maps: Tensor) -> Tensor:
    """(map, n, n) -> (map, SIDE, SIDE).

    One is what n / 4 cells reach: any line has as many, and a few cells that are stronger still (where the first token
    can only see itself) do not darken the rest. Larger maps keep the strongest of what falls together.
    """
    n = maps.shape[-1]
    full = maps.flatten(1).topk(n // 4 + 1).values[:, -1].clamp(min=1e-12)
    maps = (maps / full[:, None, None]).clamp(max=1).sqrt()
    if n > SIDE:
        return functional.adaptive_max_pool2d(maps[:, None], SIDE)[:, 0]
    source = torch.arange(SIDE) * n // SIDE
    return maps[:, source][:, :, source]


def network() -> nn.Sequential:
    """Six layers: five convolutions and one linear. (map, 2, SIDE, SIDE) -> (map, type)"""
    widths = (2, 12, 24, 32, 48, 48)
    parts: list[nn.Module] = []
    for i in range(5):
        parts += [nn.Conv2d(widths[i], widths[i + 1], 3, padding=1), nn.BatchNorm2d(widths[i + 1]), nn.ReLU()]
        parts += [nn.MaxPool2d(2)] if i < 3 else []
    side = SIDE // 8
    made = nn.Sequential(*parts, nn.Flatten(), nn.Dropout(0.3), nn.Linear(widths[5] * side * side, len(TYPES)))
    return made.to(memory_format=FAST)  # type: ignore[call-overload,no-any-return]


class Classifier:
    """From attention maps to pattern types."""

    def __init__(self) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.net = network().eval()

    def logits(self, images: Tensor) -> Tensor:
        """(map, SIDE, SIDE) -> (map, type). A second channel tells how far a pixel is from the diagonal."""
        place = torch.arange(SIDE, dtype=torch.float32) / SIDE
        far = (place[:, None] - place[None, :]).abs().expand(len(images), -1, -1)
        given: Tensor = self.net(torch.stack([images, far], 1).contiguous(memory_format=FAST))
        return given

    def fit(
        self,
        maps: Sequence[np.ndarray],
        labels: Sequence[str],
        seed: int = 0,
        steps: int = STEPS,
        progress: Progress = no_progress,
    ) -> Classifier:
        """Train anew; the same maps and seed give the same weights."""
        images = torch.from_numpy(np.stack([prepare(m) for m in maps]))
        targets = torch.tensor([TYPES.index(kind) for kind in labels])
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.manual_seed(seed)
            self.net = network().train()
            optimiser = torch.optim.AdamW(self.net.parameters(), lr=2e-3, weight_decay=1e-2)
            schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, total_steps=max(steps, 2))
            for step in range(steps):
                rows = torch.randint(len(images), (BATCH,))
                loss = functional.cross_entropy(self.logits(images[rows]), targets[rows], label_smoothing=0.05)
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                schedule.step()
                progress(step + 1, steps)
        self.net.eval()
        return self

    @torch.inference_mode()
    def probabilities(self, images: Tensor) -> np.ndarray:
        """(map, SIDE, SIDE), prepared -> (map, type)"""
        return torch.cat([self.logits(part).softmax(-1) for part in torch.split(images, 256)]).numpy()

    def classify(self, maps: Sequence[np.ndarray]) -> np.ndarray:
        """(map, type) probabilities of square maps of any size, in the order of TYPES."""
        images = np.stack([prepare(m) for m in maps]) if len(maps) else np.zeros((0, SIDE, SIDE), np.float32)
        return self.probabilities(torch.from_numpy(images))

    def types_of(self, maps: Sequence[np.ndarray]) -> list[str]:
        return [TYPES[i] for i in self.classify(maps).argmax(1)]

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        weights = {name: values.contiguous() for name, values in self.net.state_dict().items()}
        safetensors.torch.save_file(weights, folder / "classifier.safetensors")
        (folder / "classifier.json").write_text(json.dumps({"types": TYPES, "side": SIDE}), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Classifier:
        told = json.loads((folder / "classifier.json").read_text(encoding="utf-8"))
        if told != {"types": list(TYPES), "side": SIDE}:
            raise InputError(f"{folder}: this classifier was made for other types or another size of map; train it anew")
        made = cls()
        made.net.load_state_dict(safetensors.torch.load_file(folder / "classifier.safetensors"))
        return made


def f1(true: Sequence[str], predicted: Sequence[str]) -> pd.DataFrame:
    """One row per type, and 'weighted': by how many maps each type has. A type that no map has got gets no figure."""
    from sklearn.metrics import precision_recall_fscore_support  # takes a second, which few need

    given = {"labels": list(TYPES), "zero_division": 0}
    precision, recall, score, support = precision_recall_fscore_support(true, predicted, **given)
    table = pd.DataFrame({"type": TYPES, "f1": score, "precision": precision, "recall": recall, "support": support})
    table.loc[table["support"] == 0, ["f1", "precision", "recall"]] = np.nan
    precision, recall, score, _ = precision_recall_fscore_support(true, predicted, average="weighted", **given)
    table.loc[len(table)] = ["weighted", score, precision, recall, len(true)]
    return table.astype({"support": int})


def read_labels(folder: Path) -> pd.DataFrame:
    """labels.csv of a folder of annotated maps, checked."""
    path = folder / "labels.csv"
    if not path.is_file():
        raise InputError(f"{path}: not there; annotated maps are .npy files and a labels.csv with the columns file and type")
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (pd.errors.EmptyDataError, pd.errors.ParserError, UnicodeDecodeError) as problem:
        raise InputError(f"{path}: cannot be read; it may be empty or no CSV ({problem})") from None
    missing = [c for c in ("file", "type") if c not in table]
    if missing:
        raise InputError(f"{path}: no column {' and '.join(missing)}; it has {', '.join(table.columns)}")
    if table.empty:
        raise InputError(f"{folder}: labels.csv names no map")
    for kind in table["type"].unique():
        if kind not in TYPES:
            raise InputError(f"{path}: unknown type {kind!r}.{nearest(kind, TYPES)} Known: {', '.join(TYPES)}")
    return table


def read_map(folder: Path, name: str) -> np.ndarray:
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise InputError(f"{path}: outside the folder of annotated maps; move it there")
    if not path.is_file():
        raise InputError(f"{path}: named in labels.csv, but not there")
    values = read_npy(path)
    prepare(values, str(path))
    return np.asarray(values, np.float32)


def read_annotated(folder: Path) -> tuple[list[np.ndarray], list[str], list[str]]:
    """Maps, their types and their file names, from a folder of .npy files with a labels.csv (file, type)."""
    if not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder of annotated maps")
    table = read_labels(folder)
    return [read_map(folder, name) for name in table["file"]], table["type"].tolist(), table["file"].tolist()


def shipped_maps(normed: bool, half: str | None = None) -> tuple[list[np.ndarray], list[str]]:
    """Real maps labelled by hand: all, or the half the generator was tuned on ('tune') or the other ('test')."""
    folder = SHIPPED / ("normed" if normed else "raw")
    maps, labels, _ = read_annotated(folder)
    wanted = [half in (None, h) for h in read_labels(folder)["half"]]
    return list(compress(maps, wanted)), list(compress(labels, wanted))


def halves(labels: Sequence[str], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices of two halves with as much of each type; of an odd number the first half gets one more."""
    rng = np.random.default_rng([seed, 0xA77])
    kinds = np.array(labels)
    mixed = [rng.permutation(np.flatnonzero(kinds == kind)) for kind in TYPES]
    first, second = (np.sort(np.concatenate([m[start::2] for m in mixed])) for start in (0, 1))
    return first, second


def train_classifier(
    normed: bool,
    seed: int = 0,
    annotated: Path | None = None,
    progress: Progress = no_progress,
    *,
    maps: int = TRAINING,
    steps: int = STEPS,
) -> tuple[Classifier, pd.DataFrame]:
    """A classifier and how good it is: set, type, f1, precision, recall, support (the number of maps).

    'real, labelled by hand' is the half of the shipped maps that was not looked at when the generator was made.
    """
    made, labels = generated_maps(maps, seed, normed)
    held = generated_maps(max(HELD_OUT * maps // TRAINING, 50), seed + 1_000_003, normed)
    sets = {"generated, held out": held, "real, labelled by hand": shipped_maps(normed, "test")}
    if annotated is not None:
        own, kinds, _ = read_annotated(annotated)
        train, rest = halves(kinds, seed)
        times = max(1, round(OWN_SHARE / (1 - OWN_SHARE) * maps / len(train)))
        made, labels = made + [own[i] for i in train] * times, labels + [kinds[i] for i in train] * times
        if len(rest):
            sets["your own, held out"] = ([own[i] for i in rest], [kinds[i] for i in rest])
    classifier = Classifier().fit(made, labels, seed, steps, progress)
    tables = [f1(true, classifier.types_of(some)).assign(set=name) for name, (some, true) in sets.items()]
    quality = pd.concat(tables, ignore_index=True)
    return classifier, quality[["set", "type", "f1", "precision", "recall", "support"]]


def pattern_shares(
    model: Model,
    classifier_raw: Classifier,
    classifier_normed: Classifier | None,
    examples: Sequence[Words],
    progress: Progress = no_progress,
) -> pd.DataFrame:
    """attention, layer, head, type, share, examples: of so many examples, the share whose map of that head is of that type.

    Without a classifier for normed maps only raw attention is looked at, which every model has.
    """
    if not examples:
        raise InputError("pattern types: there are no examples to look at")
    layers, heads = model.units.layers, model.units.heads
    used = {"raw": classifier_raw} | ({} if classifier_normed is None else {"normed": classifier_normed})
    counts = np.zeros((len(used), layers * heads, len(TYPES)), int)
    for indices in by_length(np.array([len(w.ids) for w in examples]), 8, 512, progress):
        batch = [examples[i] for i in indices]
        given = normed_attention_of(model, batch) if "normed" in used else (attention_of(model, batch),)
        for count, classifier, attention in zip(counts, used.values(), given, strict=True):
            for row, words in enumerate(batch):
                n = len(words.ids)
                images = prepare_all(attention[row, :, :, :n, :n].reshape(layers * heads, n, n))
                count[np.arange(layers * heads), classifier.probabilities(images).argmax(1)] += 1
    names = ["attention", "layer", "head", "type"]
    index = pd.MultiIndex.from_product([used, range(layers), range(heads), TYPES], names=names)
    shares = pd.Series(counts.ravel() / len(examples), index, name="share")
    return shares.reset_index().assign(examples=len(examples))
