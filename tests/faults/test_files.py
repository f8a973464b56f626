"""Data and masks that are hostile or damaged: the file, the row, and what to do."""

from __future__ import annotations

import json
import os
from pathlib import Path

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from faults.command import corewood
from safetensors.torch import save_file
from torch import float8_e4m3fn, ones

from corewood.data.named import task
from corewood.data.read import read_split
from corewood.errors import InputError
from corewood.model.mask_files import read_masks
from corewood.spec import SourceSpec

ROWS = {"text": ["It rains.", "It snows.", "It is hot."], "label": ["a", "b", "a"]}


def read(path: Path, **more: object) -> pd.DataFrame:
    return read_split("validation", SourceSpec(path=str(path), text="text", label="label", **more))[0].frame


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"text": "a", "label": Infinity}', None),
        ('{"text": "a\\ud800", "label": "a"}', "line 2 is not JSON .half a character"),
        ('{"text": "a", "label": "\\udfff"}', "line 2 is not JSON .half a character"),
        ('{"text": ' + "[" * 100_000, "line 2 is not JSON .nested too deeply."),
        ('{"text": "a", "label": ' + "9" * 5000 + "}", "line 2 is not JSON"),
        ('{"text": ["a"], "label": "a"}', "row 2 has list in the column 'text', which is no text"),
        ('{"text": "a", "label": {"b": 1}}', "row 2 has dict in the column 'label', which is no text"),
        ("5", "line 2 is not an object"),
    ],
    ids=lambda line: str(line)[:30],
)
def test_lines_of_json_that_are_no_examples(tmp_path: Path, line: str, said: str | None) -> None:
    path = tmp_path / "dev.jsonl"
    path.write_text('{"text": "It rains.", "label": "a"}\n' + line + "\n")
    if said is None:
        assert read(path)["label"].tolist() == ["a", "inf"]
    else:
        with pytest.raises(InputError, match=said):
            read(path)


def test_half_characters_in_memory_are_refused_by_their_row() -> None:
    frame = pd.DataFrame({"text": pd.Series(["fine", "half \ud800"], dtype=object), "label": ["a", "b"]})
    with pytest.raises(InputError, match="row 2 has half a character in the column 'text'"):
        task(validation=frame)


def test_infinite_labels_are_names_like_others(tmp_path: Path) -> None:
    pd.DataFrame({"text": ROWS["text"], "label": [1.0, np.inf, -np.inf]}).to_parquet(tmp_path / "dev.parquet")
    assert read(tmp_path / "dev.parquet")["label"].tolist() == ["1.0", "inf", "-inf"]
    pd.DataFrame({"text": ROWS["text"], "label": [1e300, 2.0, 1.0]}).to_parquet(tmp_path / "dev.parquet")
    assert read(tmp_path / "dev.parquet")["label"].tolist() == ["1e+300", "2.0", "1.0"]


def test_parquet_files_that_are_no_tables_of_texts(tmp_path: Path) -> None:
    path = tmp_path / "dev.parquet"
    bad = pa.array([b"\xff\xfe", b"b", b"c"]).view(pa.binary()).cast(pa.binary())
    text = pa.StringArray.from_buffers(3, bad.buffers()[1], bad.buffers()[2])
    pq.write_table(pa.table({"text": text, "label": ROWS["label"]}), path)
    with pytest.raises(InputError, match=r"not a readable Parquet file .*UTF8"):
        read(path)
    pq.write_table(pa.table({"text": pa.array([b"a", b"b", b"c"]), "label": ROWS["label"]}), path)
    with pytest.raises(InputError, match="row 1 has bytes in the column 'text', which is no text"):
        read(path)
    pd.DataFrame(ROWS, index=pd.Index(["x", None, "z"], name="id")).assign(text=["It rains.", None, "x"]).to_parquet(path)
    with pytest.raises(InputError, match="row 2 has no 'text'"):
        read(path)
    for content in (b"", b"PAR1", b"PAR1" + b"\x00" * 50 + b"PAR1"):
        path.write_bytes(content)
        with pytest.raises(InputError, match="not a readable Parquet file"):
            read(path)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    for name in ("dev.csv", "dev.parquet", "mask.npy", "mask.json"):
        os.mkfifo(tmp_path / name)
    for name in ("dev.csv", "dev.parquet"):
        with pytest.raises(InputError, match="is no regular file"):
            read(tmp_path / name)
    for name in ("mask.npy", "mask.json"):
        with pytest.raises(InputError, match="a mask is an"):
            read_masks(tmp_path / name)
    os.mkfifo(tmp_path / "study.yaml")
    found = corewood(tmp_path, "plan", "study.yaml")
    assert (found.code, "is no regular file" in found.err) == (2, True)


@pytest.fixture
def arrow(tmp_path: Path) -> Path:
    datasets.Dataset.from_dict({key: value * 40 for key, value in ROWS.items()}).save_to_disk(str(tmp_path / "set"))
    return tmp_path / "set"


@pytest.mark.parametrize("text", ["{}", "[]", "null", "{", '{"_data_files": [{"filename": "../../x"}]}'])
def test_an_arrow_folder_that_does_not_know_its_state(arrow: Path, text: str) -> None:
    assert len(read(arrow)) == 120
    (arrow / "state.json").write_text(text)
    with pytest.raises(InputError, match="not an Arrow folder saved by datasets"):
        read(arrow)


def test_an_arrow_file_that_ends_too_early(arrow: Path) -> None:
    (file,) = arrow.glob("*.arrow")
    content = file.read_bytes()
    for length in (0, 10, len(content) // 2, len(content) - 200):
        file.write_bytes(content[:length])
        with pytest.raises(InputError, match="not an Arrow folder saved by datasets"):
            read(arrow)


# masks


def header(shape: str, kind: str = "<i8") -> bytes:
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("m.npy", header("(1000000, 1000000)"), "its header says 1000000 x 1000000 int64, and it has 0 bytes"),
        ("m.npy", header("(-1, 4)"), "damaged or too large|not an array"),
        ("m.npy", header("(2, 2)", "|O") + b"cos\nsystem\n", "Python objects, which need pickle"),
        ("m.npy", b"\x93NUMPY\x02\x00\xff\xff\xff\x7f", "not an array in .npy format"),
        ("m.npy", b"", "not an array in .npy format"),
        ("m.npy", b"\x93NUMPY\x09\x00", "not an array|version"),
        ("m.json", b'{"heads": ' + b"[" * 100_000, "is not JSON .nested too deeply."),
        ("m.json", b'{"heads": [[1e999, 0]]}', "0 and 1 only"),
        ("m.json", b'{"heads": [[1, 0], [1]]}', "cannot be read as a mask"),
        ("m.json", b"[1]", "not a mask"),
        ("m.json", b"\xff", "cannot be read|is not JSON"),
        ("m.safetensors", b"\xff" * 40, "cannot be read as a mask"),
        ("m.safetensors", b"", "cannot be read as a mask"),
    ],
)
def test_masks_that_are_none(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=said):
        read_masks(tmp_path / name)


def test_numbers_that_numpy_has_not(tmp_path: Path) -> None:
    save_file({"heads": ones(2, 4).to(float8_e4m3fn)}, tmp_path / "m.safetensors")
    with pytest.raises(InputError, match=r"cannot be read as a mask|0 and 1 only, not"):
        read_masks(tmp_path / "m.safetensors")


def test_agree_has_an_end_and_takes_any_name(tmp_path: Path) -> None:
    np.save(tmp_path / "pack.npy", np.ones((501, 2, 3), int))
    found = corewood(tmp_path, "agree", "pack.npy")
    assert (found.code, "501 masks, and 500 at a time are the most" in found.err) == (2, True)
    (tmp_path / "some").mkdir()
    for name in (b"\xff.npy", b"\x1b[31m.npy"):
        with open(os.path.join(os.fsencode(tmp_path / "some"), name), "wb") as stream:
            np.save(stream, np.eye(3, dtype=int))
    found = corewood(tmp_path, "agree", "some", "--out", "pairs.csv")
    assert found.code == 0, found.err
    assert "\x1b" not in found.out
    assert "\\xff.npy" in (tmp_path / "pairs.csv").read_text()
    assert json.dumps(found.out)
