"""Files and hub sets into rows, as they stand there."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from corewood.data.layouts import Known
from corewood.errors import InputError
from corewood.spec import SourceSpec
from corewood.spec.base import MOST_EXAMPLES
from corewood.untrusted import parse_json, read_bytes, why

FORMATS = {
    ".csv": "csv", ".tsv": "tsv", ".txt": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl",
    ".parquet": "parquet", ".pq": "parquet",
}  # fmt: skip
PACKED = (".gz", ".zip", ".bz2", ".xz", ".zst")
Rows = tuple[pd.DataFrame, dict[str, list[str]], list[str]]  # rows, class names of columns that carry them, notes


def file_rows(path: Path, source: SourceSpec, known: Known) -> Rows:
    kind = source.format or ("arrow" if path.is_dir() else FORMATS.get(path.suffix.lower()))
    if kind is None and path.suffix.lower() in PACKED:
        raise InputError(f"{path}: is packed, and files are read as they stand; unpack it, and give {path.stem}")
    if kind is None:
        raise InputError(f"{path}: unknown kind of file; set format to csv, tsv, jsonl, parquet or arrow")
    if kind == "arrow":
        return arrow_rows(path, source)
    if source.split is not None:
        raise InputError(f"{path}: a file has no splits; leave split: {source.split} out, or give a hub set or an Arrow folder")
    if kind == "parquet":
        return parquet_rows(path), {}, []
    text = read_text(path)
    if kind == "jsonl":
        return json_rows(path, text), {}, []
    if kind == "csv":
        return csv_rows(path, text), {}, []
    return tsv_rows(path, text, source, known)


def check_twice(frame: pd.DataFrame, where: str) -> None:
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        raise InputError(f"{where}: the column {twice[0]!r} stands twice; rename one of them")


def parquet_rows(path: Path) -> pd.DataFrame:
    """Checked before it becomes Python's: a damaged file may say that texts end where there is no memory any more."""
    try:
        if not path.is_file():
            raise InputError(f"{path}: is no regular file; give a Parquet file")
        with pq.ParquetFile(path) as file:
            count = file.metadata.num_rows
            if count > MOST_EXAMPLES:
                raise InputError(f"{path}: says that it has {count:,} rows; {MOST_EXAMPLES:,} are the most")
            file.read().validate(full=True)
        return plain_rows(pd.read_parquet(path))
    except InputError:
        raise
    except Exception as problem:  # pyarrow and pandas raise many kinds for what is damaged
        raise InputError(f"{path}: not a readable Parquet file ({why(problem)})") from None


def plain_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows by their number, columns by name: what pandas kept of the frame it wrote is not wanted."""
    return frame.set_axis([str(column) for column in frame.columns], axis=1).reset_index(drop=True)


def read_text(path: Path) -> str:
    """UTF-8, with or without a byte-order mark."""
    raw = read_bytes(path)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
            made = f"iconv -f UTF-16 -t UTF-8 {path.name} > fixed{path.suffix}"
            raise InputError(f"{path}: is UTF-16, as Excel's Unicode text is; convert the file, for instance: {made}") from None
        line = raw[: problem.start].count(b"\n") + 1
        raise InputError(
            f"{path}: line {line} is not UTF-8 (byte 0x{raw[problem.start]:02x}); "
            f"convert the file, for instance: iconv -f LATIN1 -t UTF-8 {path.name} > fixed{path.suffix}"
        ) from None


def json_rows(path: Path, text: str) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        row = parse_json(line, f"{path}: line {number} ", "; JSONL has one object on each line")
        if not isinstance(row, dict):
            raise InputError(f"{path}: line {number} is not an object; JSONL has one object on each line")
        rows.append(row)
    return pd.DataFrame(rows)


def csv_rows(path: Path, text: str) -> pd.DataFrame:
    csv.field_size_limit(2**31 - 1)  # a text may be a book; the module's default is 128 KiB
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(reader, [])
        other = {";": "semicolons", "\t": "tabs"}.get(next((c for c in ";\t" if len(header) == 1 and c in header[0]), ""))
        if other:
            save = "save it with commas, or with tabs as .tsv" if other == "semicolons" else "name it .tsv, or set format: tsv"
            raise InputError(f"{path}: {other} separate its columns ({header[0]!r:.60}), and in CSV commas do; {save}")
        rows = []
        for row in filter(None, reader):
            if len(row) != len(header):
                raise InputError(
                    f"{path}: line {reader.line_num} has {len(row)} fields, the header {len(header)}; "
                    "quote fields that hold commas"
                )
            rows.append(row)
    except csv.Error as problem:
        raise InputError(
            f"{path}: unbalanced quotes near line {reader.line_num} ({problem}); "
            'double the quotes inside a field ("" for ") or save the file as JSONL'
        ) from None
    for place, name in enumerate(header):
        if rows and all(row[place][:1] == " " and in_quotes(row[place][1:]) for row in rows):
            raise InputError(
                f"{path}: every {name!r} has a space before its quote, which makes the quote part of it; write the quote right "
                'after the comma ("a","b")'
            )
    return pd.DataFrame(rows, columns=header)


def in_quotes(field: str) -> bool:
    return len(field) > 1 and field[0] == field[-1] == '"'


def tsv_rows(path: Path, text: str, source: SourceSpec, known: Known) -> Rows:
    """Tabs separate, nothing else: a quote is a character. Files that look quoted as in CSV get a note."""
    lines = [line.rstrip("\r") for line in text.split("\n" if "\n" in text else "\r")]
    rows = [(number, line.split("\t")) for number, line in enumerate(lines, 1) if line]
    if not rows:
        return pd.DataFrame(), {}, []
    if not known.bare or any(set(rows[0][1]).issuperset(names) for names in known.text):
        header = rows.pop(0)[1]
        expected = f"the header {len(header)}"
    else:
        header = list(known.bare)
        expected = f"a file of layout {source.layout} without a header {len(header)} ({', '.join(header)})"
    notes = []
    broken = [(number, row) for number, row in rows if len(row) != len(header)]
    if broken and known.broken != "drop":
        raise InputError(
            f"{path}: line {broken[0][0]} has {len(broken[0][1])} fields, {expected}; "
            "a tab or line break inside a field does not work in TSV: save the file as JSONL or CSV"
        )
    if broken:
        notes.append(f"{path}: {len(broken)} lines lack fields (first: line {broken[0][0]}) and are left out")
        rows = [(number, row) for number, row in rows if len(row) == len(header)]
    throughout = any(all(in_quotes(row[place]) for _, row in rows) for place in range(len(header) if rows else 0))
    quoted = [number for number, row in rows if throughout or any(in_quotes(field) and '""' in field[1:-1] for field in row)]
    if quoted:
        notes.append(
            f"{path}: {len(quoted)} lines look quoted as in CSV (first: line {quoted[0]}), and quotes were read as plain text; "
            "if that is wrong, save the file as JSONL"
        )
    odd = [number for number, row in rows if any(field.count('"') % 2 for field in row)]
    if odd:
        notes.append(f"{path}: {len(odd)} lines hold unbalanced quotes (first: line {odd[0]}); quotes were read as plain text")
    return pd.DataFrame([row for _, row in rows], columns=header), {}, notes


def arrow_rows(path: Path, source: SourceSpec) -> Rows:
    import datasets

    try:  # into memory: a mapped file that ends too early kills the process
        loaded = datasets.load_from_disk(str(path), keep_in_memory=True)
        if isinstance(loaded, datasets.DatasetDict):
            wanted = source.split or "train"
            if wanted not in loaded:
                raise InputError(f"{path}: has the splits {', '.join(loaded)}; choose one with split: ...")
            loaded = loaded[wanted]
        elif source.split is not None:
            raise InputError(f"{path}: is one set without splits; leave split: {source.split} out")
        loaded.data.table.validate(full=True)
        return dataset_rows(loaded)
    except InputError:
        raise
    except Exception as problem:  # datasets raises many kinds for what is damaged
        raise InputError(f"{path}: not an Arrow folder saved by datasets ({why(problem)})") from None


def hub_rows(source: SourceSpec) -> Rows:
    import datasets

    assert source.hub is not None
    try:
        loaded = datasets.load_dataset(source.hub, source.config, split=source.split or "train", revision=source.revision)
    except Exception as problem:  # datasets raises many kinds; all mean that the set cannot be had
        raise InputError(
            f"hub set {source.hub}: cannot be loaded ({why(problem)}); check hub, config and split, "
            "or download the files and give a path"
        ) from None
    return dataset_rows(loaded)


def dataset_rows(loaded: Any) -> Rows:
    named = {column: list(feature.names) for column, feature in loaded.features.items() if hasattr(feature, "names")}
    return plain_rows(loaded.to_pandas()), named, []
