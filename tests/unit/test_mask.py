from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from corewood.errors import InputError
from corewood.model.mask import Mask, Masks, Units

UNITS = Units(3, 4, 4, 100, 50, 1000, 10_000, 50_000)
masks = st.builds(Mask, arrays(bool, (3, 4)), arrays(bool, (3,)))


@given(masks, masks)
def test_masks_are_sets_of_names(a: Mask, b: Mask) -> None:
    one, other = set(a.names), set(b.names)
    assert set((a & b).names) == one & other
    assert set((a | b).names) == one | other
    assert set((a - b).names) == one - other
    assert set((~a).names) == set(UNITS.names) - one
    assert (a <= b) == (one <= other)
    assert (a == b) == (one == other)
    assert len(a) == len(one)
    assert a.sparsity == pytest.approx(1 - len(one) / 15)
    assert UNITS.from_vector(a.vector) == a


@given(masks)
def test_every_format_brings_back_the_same_mask(tmp_path_factory: pytest.TempPathFactory, mask: Mask) -> None:
    folder = tmp_path_factory.mktemp("masks")
    for suffix in (".safetensors", ".json", ".npy"):
        assert Mask.load(mask.save(folder / f"m{suffix}")) == mask


def test_an_npy_of_heads_alone_keeps_all_mlps(tmp_path: Path) -> None:
    heads = np.eye(3, 4)
    np.save(tmp_path / "m.npy", heads)
    mask = Mask.load(tmp_path / "m.npy", heads=4)
    assert (mask.heads == heads.astype(bool)).all()
    assert mask.mlps.all()


def test_bad_masks_are_refused_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(InputError, match=r"folder\.json: cannot be read"):
        Mask.load(tmp_path / "folder.json")
    with pytest.raises(InputError, match="no such mask file"):
        Mask.load(tmp_path / "none.npy")
    (tmp_path / "empty.npy").write_bytes(b"")
    with pytest.raises(InputError, match=r"empty\.npy: not an array in \.npy format"):
        Mask.load(tmp_path / "empty.npy")
    with pytest.raises(InputError, match=r"\.safetensors, \.json or \.npy"):
        Mask.load(tmp_path / "m.pkl")
    (tmp_path / "m.json").write_text('{"heads": [[1, 0]]}')
    with pytest.raises(InputError, match="not a mask"):
        Mask.load(tmp_path / "m.json")
    (tmp_path / "m.safetensors").write_bytes(b"nonsense")
    with pytest.raises(InputError, match="not a mask"):
        Mask.load(tmp_path / "m.safetensors")
    np.save(tmp_path / "p.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="need pickle"):
        Mask.load(tmp_path / "p.npy")
    with pytest.raises(InputError, match="0 and 1 only"):
        Mask(np.full((2, 2), 0.5), np.ones(2))
    with pytest.raises(InputError, match="different shapes"):
        Mask(np.ones((2, 2)), np.ones(2)) & Mask(np.ones((2, 3)), np.ones(2))
    with pytest.raises(InputError, match="the model has 3 x 4"):
        Mask(np.ones((2, 2)), np.ones(2)).check(UNITS)


def test_sizes_in_three_currencies_by_hand() -> None:
    heads = np.ones((3, 4), bool)
    heads[0, :3] = False  # three heads, and the first two groups of two share their keys and values
    mlps = np.array([True, False, True])
    alone = Mask(heads, mlps).sizes(UNITS)  # every head has its own keys and values
    assert alone["encoder_parameters"] == 10_000 - 3 * 150 - 1000
    assert alone["units"] == 15 - 4
    assert alone["all_share"] == pytest.approx((50_000 - 1450) / 50_000)
    grouped = Mask(heads, mlps).sizes(Units(3, 4, 2, 100, 50, 1000, 10_000, 50_000))
    assert grouped["encoder_parameters"] == 10_000 - 3 * 100 - 1 * 50 - 1000  # one group gone, half of another


def test_a_mask_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        UNITS.full().heads[0, 0] = False


def test_they_show_themselves() -> None:
    mask = UNITS.full()
    assert repr(mask) == "<Mask 12/12 heads, 3/3 MLPs, sparsity 0.00>"
    assert str(mask).count("####") == 3
    assert "<table>" in mask._repr_html_()
    assert "L2.H3" in mask
    assert "<table>" in Masks([mask, mask])._repr_html_()
    assert Masks([mask, ~mask])[1] == ~mask


def test_one_mask_is_one_mask() -> None:
    mask = Mask(np.ones((2, 3), bool), np.ones(2, bool))
    assert repr(Masks([mask])) == "<1 mask: 8 units>"
    assert repr(Masks([mask, mask])) == "<2 masks: 8 units, 8 units>"
