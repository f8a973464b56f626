"""Pattern types: maps that are made, maps that are read, and the classifier between them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch

from corewood.data.encode import words_of
from corewood.errors import InputError
from corewood.evaluate.generated_maps import TYPES, generated_map, generated_maps
from corewood.evaluate.patterns import (
    SIDE,
    Classifier,
    f1,
    halves,
    pattern_shares,
    prepare,
    prepare_all,
    read_annotated,
    shipped_maps,
    train_classifier,
)


def some(kind: str, normed: bool = False, count: int = 60) -> list[np.ndarray]:
    return [generated_map(kind, np.random.default_rng(i), normed) for i in range(count)]


def near_diagonal(values: np.ndarray) -> float:
    """Strength of a cell at most one place from the diagonal, over that of any cell."""
    ahead = np.subtract.outer(np.arange(len(values)), np.arange(len(values)))
    return float(values[np.abs(ahead) <= 1].mean() / values[ahead >= 0].mean())


def best_column(values: np.ndarray) -> float:
    """What the strongest column gets in a row in the middle of its rows, over the mean of all cells."""
    halfway = range(max(1, len(values) // 2))  # further right, a decoder's columns are too short to tell
    return max(float(np.median(values[i:, i])) for i in halfway) / float(values[values > 0].mean())


def unevenness(values: np.ndarray) -> float:
    return float(np.quantile(values, 0.99) / np.median(values[values > np.median(values)]))


def typical(measure: Callable[[np.ndarray], float], normed: bool) -> dict[str, float]:
    return {kind: float(np.median([measure(m) for m in some(kind, normed)])) for kind in TYPES}


@pytest.mark.parametrize("normed", [False, True])
def test_every_type_has_what_names_it(normed: bool) -> None:
    with_line, with_column = {"diagonal", "vertical+diagonal"}, {"vertical", "vertical+diagonal"}
    line, column, uneven = (typical(measure, normed) for measure in (near_diagonal, best_column, unevenness))
    assert min(line[k] for k in with_line) > 1.3 * max(line[k] for k in TYPES if k not in with_line)
    assert min(column[k] for k in with_column) > 1.3 * max(column[k] for k in TYPES if k not in with_column)
    assert uneven["block"] < 0.8 * min(uneven[k] for k in TYPES if k != "block")


def test_generated_maps_are_attention() -> None:
    maps, labels = generated_maps(60, 0)
    assert set(labels) == set(TYPES)
    assert min(map(len, maps)) >= 7
    assert max(map(len, maps)) <= 128
    for values in maps:
        assert values.shape == (len(values), len(values))
        np.testing.assert_allclose(values.sum(1), 1, rtol=1e-6)
    strength = [m.sum(1) for m in generated_maps(60, 0, normed=True)[0]]
    assert np.median([s.std() / s.mean() for s in strength]) > 0.1  # rows of normed maps are not all as strong


def test_the_same_seed_gives_the_same_maps() -> None:
    one, other, third = generated_maps(10, 3)[0], generated_maps(20, 3)[0], generated_maps(10, 4)[0]
    assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=False))
    assert not any(np.array_equal(a, b) for a, b in zip(one, third, strict=True))


@pytest.mark.parametrize("n", [1, 2, 7, SIDE - 1, SIDE, SIDE + 1, 100, 300])
def test_maps_of_any_size_become_one_size(n: int) -> None:
    image = prepare(np.eye(n))
    assert image.shape == (SIDE, SIDE)
    assert image.dtype == np.float32
    assert image.min() >= 0
    assert image.max() == 1
    assert (np.diag(image) == 1).all()  # a line stays a line
    assert n == 1 or image.mean() < 0.75


def test_the_scale_of_a_map_does_not_matter() -> None:
    values = generated_maps(1, 5)[0][0]
    np.testing.assert_allclose(prepare(values), prepare(values * 7), rtol=1e-5)
    assert prepare(np.zeros((5, 5))).max() == 0
    stack = torch.from_numpy(np.stack([values, values.T]).astype(np.float32))
    np.testing.assert_array_equal(prepare_all(stack)[0], prepare(values))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ones((3, 4)), r"a\.npy: an attention map is square .*\(3, 4\)"),
        (np.ones(4), "square"),
        (np.zeros((0, 0)), "square"),
        (np.full((3, 3), np.nan), r"a\.npy: .*finite numbers"),
        (-np.eye(3), "zero or more"),
        (np.array([["a"]]), "numbers"),
    ],
)
def test_what_is_no_map_is_refused(values: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        prepare(values, "a.npy")


def test_the_classifier_learns_and_is_the_same_again(tmp_path: Path) -> None:
    maps, labels = generated_maps(500, 0)
    seen: list[int] = []
    one = Classifier().fit(maps, labels, seed=1, steps=60, progress=lambda done, _total: seen.append(done))
    assert seen == list(range(1, 61))
    held, true = generated_maps(100, 99)
    found = one.classify(held)
    assert found.shape == (100, len(TYPES))
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-5)
    assert np.mean([TYPES[i] == kind for i, kind in zip(found.argmax(1), true, strict=True)]) > 0.45  # chance: 0.2
    one.save(tmp_path / "kept")
    np.testing.assert_array_equal(Classifier.load(tmp_path / "kept").classify(held), found)
    again = Classifier().fit(maps[:50], labels[:50], seed=1, steps=3).classify(held)
    np.testing.assert_array_equal(Classifier().fit(maps[:50], labels[:50], seed=1, steps=3).classify(held), again)
    assert Classifier().classify([]).shape == (0, len(TYPES))


def test_a_classifier_for_other_types_is_not_loaded(tmp_path: Path) -> None:
    Classifier().save(tmp_path)
    (tmp_path / "classifier.json").write_text('{"types": ["round"], "side": 32}')
    with pytest.raises(InputError, match="other types"):
        Classifier.load(tmp_path)


def test_f1_by_hand() -> None:
    table = f1(["block", "block", "diagonal", "vertical"], ["block", "vertical", "diagonal", "vertical"]).set_index("type")
    assert list(table.columns) == ["f1", "precision", "recall", "support"]
    assert table.loc["block", "f1"] == pytest.approx(2 / 3)
    assert table.loc["vertical", "precision"] == 0.5
    assert table.loc["weighted", "f1"] == pytest.approx((2 * 2 / 3 + 1 + 2 / 3) / 4)
    assert table["support"].to_dict() == {
        "vertical": 1, "diagonal": 1, "vertical+diagonal": 0, "block": 2, "heterogeneous": 0, "weighted": 4,
    }  # fmt: skip
    assert np.isnan(table.loc["heterogeneous", "f1"])


def write(folder: Path, rows: dict[str, str]) -> Path:
    for i, name in enumerate(rows):
        np.save(folder / name, generated_map(TYPES[i % 5], np.random.default_rng(i)))
    lines = ["file,type", *(f"{name},{kind}" for name, kind in rows.items())]
    (folder / "labels.csv").write_text("\n".join(lines) + "\n")
    return folder


def test_annotated_maps_are_read(tmp_path: Path) -> None:
    maps, labels, names = read_annotated(write(tmp_path, {"a.npy": "block", "b.npy": "diagonal"}))
    assert (labels, names) == (["block", "diagonal"], ["a.npy", "b.npy"])
    assert all(m.shape[0] == m.shape[1] for m in maps)


def test_mistakes_in_annotated_maps(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        read_annotated(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"labels\.csv: not there"):
        read_annotated(tmp_path)
    with pytest.raises(InputError, match="names no map"):
        read_annotated(write(tmp_path, {}))
    (tmp_path / "labels.csv").write_text("")
    with pytest.raises(InputError, match=r"labels\.csv: .*empty"):
        read_annotated(tmp_path)
    with pytest.raises(InputError, match=r"unknown type 'diagnal'\. Did you mean 'diagonal'"):
        read_annotated(write(tmp_path, {"a.npy": "diagnal"}))
    write(tmp_path, {"a.npy": "block"})
    (tmp_path / "a.npy").unlink()
    with pytest.raises(InputError, match=r"a\.npy: named in labels\.csv, but not there"):
        read_annotated(tmp_path)
    np.save(tmp_path / "a.npy", np.ones((2, 3)))
    with pytest.raises(InputError, match=r"a\.npy: an attention map is square"):
        read_annotated(tmp_path)
    np.save(tmp_path / "a.npy", np.array([{}], dtype=object))
    with pytest.raises(InputError, match=r"a\.npy: holds Python objects, which need pickle"):
        read_annotated(tmp_path)
    (tmp_path / "labels.csv").write_text("map,kind\na.npy,block\n")
    with pytest.raises(InputError, match="no column file and type; it has map, kind"):
        read_annotated(tmp_path)


def test_a_map_outside_its_folder_is_refused(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    np.save(tmp_path / "a.npy", np.eye(4))
    (inner / "labels.csv").write_text("file,type\n../a.npy,block\n")
    with pytest.raises(InputError, match=r"\.\./a\.npy: outside the folder"):
        read_annotated(inner)


def test_shipped_maps_are_many_and_sound() -> None:
    counts = {normed: len(shipped_maps(normed)[0]) for normed in (False, True)}
    assert sum(counts.values()) >= 100
    for normed in (False, True):
        maps, labels = shipped_maps(normed)
        assert set(labels) == set(TYPES)
        assert all(m.shape[0] == m.shape[1] and np.isfinite(m).all() for m in maps)
        two = [shipped_maps(normed, half)[1] for half in ("tune", "test")]
        assert len(two[0]) + len(two[1]) == len(maps)
        assert set(two[0]) == set(two[1]) == set(TYPES)
        if not normed:
            assert max(np.abs(m.sum(1) - 1).max() for m in maps) < 0.02


def test_halves_are_stratified() -> None:
    labels = ["block"] * 5 + ["diagonal"] * 4
    one, other = halves(labels, 0)
    assert sorted([*one, *other]) == list(range(9))
    assert [sum(labels[i] == "block" for i in half) for half in (one, other)] == [3, 2]


def test_training_says_how_good_it_is_on_each_set(tmp_path: Path) -> None:
    own = write(tmp_path, {f"{i}.npy": TYPES[i % 5] for i in range(20)})
    classifier, quality = train_classifier(True, 0, own, maps=100, steps=3)
    assert list(quality.columns) == ["set", "type", "f1", "precision", "recall", "support"]
    counts = quality[quality["type"] == "weighted"].set_index("set")["support"].to_dict()
    assert counts == {
        "generated, held out": 50, "real, labelled by hand": len(shipped_maps(True, "test")[0]), "your own, held out": 10,
    }  # fmt: skip
    assert isinstance(classifier, Classifier)
    assert "your own, held out" not in set(train_classifier(False, 0, maps=50, steps=2)[1]["set"])


def test_shares_of_a_head_add_up_to_one() -> None:
    model = tiny.model("bert")
    pairs = [("the baker saw the nun .", "the nun fell ."), ("a mayor fell .", "a mayor fell ."), ("a nun .", "a nun .")]
    words = [words_of(model.tokenizer, pair, 64) for pair in pairs]
    seen: list[tuple[int, int]] = []
    table = pattern_shares(model, Classifier(), Classifier(), words, lambda done, total: seen.append((done, total)))
    assert seen[-1] == (3, 3)
    assert list(table.columns) == ["attention", "layer", "head", "type", "share", "examples"]
    assert len(table) == 2 * 2 * 4 * len(TYPES)
    assert table.groupby(["attention", "layer", "head"])["share"].sum().tolist() == pytest.approx([1] * 16)
    assert set(table["examples"]) == {3}
    raw = pattern_shares(model, Classifier(), None, words)
    assert set(raw["attention"]) == {"raw"}
    with pytest.raises(InputError, match="no examples"):
        pattern_shares(model, Classifier(), None, [])
