"""`corewood agree`: what it reads, what it says, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file
from sklearn.metrics import cohen_kappa_score

from corewood.cli import main
from corewood.model.mask import Mask, Masks


def drawn(seed: int, layers: int = 4, heads: int = 6, keep: float = 0.5) -> Mask:
    rng = np.random.default_rng(seed)
    return Mask(rng.random((layers, heads)) < keep, rng.random(layers) < 0.6)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Five head masks as .npy, in the types that people write."""
    found = tmp_path / "masks"
    found.mkdir()
    for i, kind in enumerate((bool, int, float, np.uint8, np.float16)):
        np.save(found / f"seed{i}.npy", drawn(i).heads.astype(kind))
    return found


def agree(*arguments: object) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["corewood", "agree", *map(str, arguments)])
        with pytest.raises(SystemExit) as done:
            main()
    if done.value.code:
        raise AssertionError(done.value.code)


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    with pytest.raises(AssertionError, match="2"):
        agree(*arguments)
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    return error


def test_a_pack_with_mlps_gets_the_hint_that_single_files_get(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pack = Masks([drawn(0), drawn(1)]).save(tmp_path / "pack.npy")
    agree(pack)
    assert "An odd number of heads: if the last column of an .npy is the MLP, say --mlps." in capsys.readouterr().out
    agree(pack, "--mlps")
    assert "4 layers x 6 heads each" in capsys.readouterr().out


def test_a_folder_of_head_masks(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "pairs.csv"
    agree(folder, "--out", out)
    said = capsys.readouterr().out
    for words in ("5 masks", "4 layers x 6 heads each", "Fleiss' kappa", "in layers", "kept by all 5 (super-survivors)",
                  "Do all masks have the same size? Cochran's Q", "of 10 pairs", "Holm"):  # fmt: skip
        assert words in said
    assert "MLP" not in said
    table = pd.read_csv(out)
    assert list(table.columns[:3]) == ["kind", "one", "other"]
    assert len(table) == 10
    assert table.loc[0, ["one", "other"]].tolist() == ["seed0.npy", "seed1.npy"]
    assert table.loc[0, "kappa"] == pytest.approx(cohen_kappa_score(drawn(0).heads.ravel(), drawn(1).heads.ravel()))


def test_the_picture_counts_masks(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agree(folder)
    lines = capsys.readouterr().out.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("L0"))
    votes = sum(drawn(i).heads.astype(int) for i in range(5))
    for layer in range(4):
        assert lines[start + layer].split() == [f"L{layer}", *({0: ".", 5: "#"}.get(int(v), str(v)) for v in votes[layer])]


def test_saved_masks_and_packs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    masks = [drawn(i) for i in range(14)]
    masks[0].save(tmp_path / "a.json")
    masks[1].save(tmp_path / "b.safetensors")
    pack = {"heads": np.stack([m.heads for m in masks[2:]]), "mlps": np.stack([m.mlps for m in masks[2:]])}
    save_file({kind: values.astype(np.uint8) for kind, values in pack.items()}, tmp_path / "pack.safetensors")
    agree(tmp_path, "--out", tmp_path / "pairs.csv")
    said = capsys.readouterr().out
    assert "14 masks" in said
    assert "4 MLPs each" in said
    assert "... and 71 more pairs: all are in" in said
    assert "tenths" in said
    table = pd.read_csv(tmp_path / "pairs.csv")
    assert table["kind"].value_counts().to_dict() == {"head": 91, "mlp": 91}
    row = table[(table["kind"] == "mlp") & (table["one"] == "b.safetensors") & (table["other"] == "pack.safetensors[3]")]
    assert row["shared"].item() == (masks[1].mlps & masks[5].mlps).sum()


def test_the_last_column_is_the_mlp_only_when_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for i in range(3):
        drawn(i).save(tmp_path / f"{i}.npy")
    agree(tmp_path)
    said = capsys.readouterr().out
    assert "4 layers x 7 heads" in said
    assert "say --mlps" in said
    agree(tmp_path, "--mlps")
    said = capsys.readouterr().out
    assert "4 layers x 6 heads each" in said
    assert "4 MLPs each" in said
    assert "say --mlps" not in said
    np.save(tmp_path / "pack.npy", np.stack([np.load(tmp_path / f"{i}.npy") for i in range(3)]))
    agree(tmp_path / "pack.npy", "--mlps")
    assert capsys.readouterr().out.count("4 layers x 6 heads each") == 1


def test_rows_of_layers_are_mlps(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "one.npy", drawn(0).mlps)
    np.save(tmp_path / "other.npy", drawn(1).mlps[None].astype(float))
    agree(tmp_path / "one.npy", tmp_path / "other.npy")
    said = capsys.readouterr().out
    assert "4 MLPs each" in said
    assert "Heads" not in said
    agree(folder, tmp_path / "one.npy")
    assert "Only one.npy has them: nothing to compare." in capsys.readouterr().out


def test_masks_that_say_nothing_are_shown_all_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in "ab":
        np.save(tmp_path / f"{name}.npy", np.zeros((4, 6)))
    agree(tmp_path)
    said = capsys.readouterr().out
    assert "kept: 0" in said
    assert "nan" not in said


def test_paths_that_cannot_be_right(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "void").mkdir()
    (tmp_path / "x.txt").touch()
    assert "no such file or folder" in refused(capsys, tmp_path / "nothing")
    assert "empty" in refused(capsys, folder, tmp_path / "void")
    assert ".npy, .json or .safetensors" in refused(capsys, folder, tmp_path / "x.txt")
    assert "at least two masks" in refused(capsys, folder / "seed0.npy")
    assert "given twice" in refused(capsys, folder, folder / "seed0.npy")
    assert "exists already" in refused(capsys, folder, "--out", tmp_path / "x.txt")
    assert "no folder" in refused(capsys, folder, "--out", tmp_path / "no" / "x.csv")


def test_masks_of_different_shapes_are_named(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "large.npy", np.ones((12, 12)))
    error = refused(capsys, folder, tmp_path / "large.npy")
    for words in ("seed0.npy has 4 layers x 6 heads", "large.npy has 12 layers x 12 heads"):
        assert words in error
    drawn(9).save(tmp_path / "saved.npy")
    assert "say --mlps" in refused(capsys, folder, tmp_path / "saved.npy")
    np.save(tmp_path / "mlps.npy", np.ones(5))
    assert "mlps.npy has 5 MLPs" in refused(capsys, folder, tmp_path / "mlps.npy")


def test_soft_masks_are_told_how_to_become_hard(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "soft.npy", np.linspace(0, 0.75, 24).reshape(4, 6))
    error = refused(capsys, folder, tmp_path / "soft.npy")
    for words in ("soft.npy", "0 to 0.75", "mask > 0.5"):
        assert words in error


def test_files_that_are_no_masks(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "objects.npy", np.array([[1, None]], object))
    assert "pickle" in refused(capsys, folder, tmp_path / "objects.npy")
    np.save(tmp_path / "words.npy", np.array([["a", "b"]]))
    save_file({"weights": np.ones(3)}, tmp_path / "weights.safetensors")
    for name, content in (("a.npy", b"x"), ("b.npy", b""), ("c.json", b"{"), ("d.json", b'{"heads": [[1], [1, 0]]}'),
                          ("e.json", b"3"), ("f.safetensors", b"x"), ("g.json", b"\xff")):  # fmt: skip
        (tmp_path / name).write_bytes(content)
    for file in sorted(f for f in tmp_path.iterdir() if f.is_file()):
        assert file.name in refused(capsys, folder, file)


def test_help_imports_nothing_heavy() -> None:
    code = "import sys; sys.argv = ['corewood', 'agree', '--help']\nfrom corewood.cli import main\n"
    code += "try:\n    main()\nexcept SystemExit:\n    pass\n"
    code += "print('LOADED', *sorted(set(sys.modules) & {'torch', 'pandas', 'numpy', 'scipy', 'statsmodels', 'safetensors'}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "LOADED"
    assert "--mlps" in done.stdout


def test_a_vector_beside_a_grid_says_what_each_is(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "one_d.npy", np.ones(4))
    said = refused(capsys, tmp_path / "one_d.npy", folder / "seed0.npy")
    assert "needs two masks of heads, or two of MLPs: one_d.npy has 4 MLPs, masks/seed0.npy has 4 layers x 6 heads" in said
    assert "not one; give more files" in refused(capsys, folder / "seed0.npy")
