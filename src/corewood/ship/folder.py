"""A new folder, written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from corewood.errors import CorewoodError, InputError
from corewood.store.store import disk_full, file_digest, obstacle

FILE, FOLDER = 0o644, 0o755


def check_new(out: Path) -> None:
    """Asked before any work."""
    if out.exists() or out.is_symlink():
        raise InputError(f"{out}: exists already; choose another folder with --out, or move it away")
    problem = obstacle(out)
    if problem:
        raise InputError(f"{out}: cannot be written ({problem}); choose another folder with --out")


@contextlib.contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A folder under a temporary name beside it, that gets its own when the block ends well."""
    check_new(out)
    part = out.parent / f".{out.name}-{uuid.uuid4().hex[:8]}.part"
    try:
        part.mkdir(parents=True)
        yield part
        for path in (part, *sorted(part.rglob("*"))):  # safetensors and onnx have ideas of their own
            path.chmod((FOLDER if path.is_dir() else FILE) & part.stat().st_mode)
        part.rename(out)
    except CorewoodError:
        raise
    except Exception as problem:  # onnx and safetensors have exceptions of their own for a full disk
        code = getattr(problem, "errno", None)
        if disk_full(problem, out.parent):
            why = "the disk is full; free some space, or choose another folder with --out"
        elif isinstance(problem, OSError) and code is not None:
            why = f"cannot be written ({os.strerror(code)}); choose another folder with --out"
        else:
            raise
        raise InputError(f"{out}: {why}. Nothing was written") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)


def listed(folder: Path) -> dict[str, dict[str, object]]:
    """Every file in it: its bytes and its SHA-256."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {path.relative_to(folder).as_posix(): {"bytes": path.stat().st_size, "sha256": file_digest(path)} for path in files}
