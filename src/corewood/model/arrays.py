"""Arrays in .npy files of any origin: numbers, and no more than the file holds."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from corewood.errors import InputError
from corewood.untrusted import why

LARGEST = 100_000_000  # numbers in one array
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
PICKLED = (
    "holds Python objects, which need pickle, and that can run code: it is not read. Write it again as numbers, with "
    "numpy.save(file, mask.astype(int))"
)


def read_npy(path: Path) -> np.ndarray:
    """The header is believed only as far as the file goes: it may ask for all of the memory."""
    try:
        with path.open("rb") as stream:
            form = np.lib.format.read_magic(stream)
            if form not in HEADERS:
                raise InputError(f"{path}: is an .npy of version {form[0]}.{form[1]}; write it with numpy.save")
            shape, _, kind = HEADERS[form](stream)
            if kind.hasobject:
                raise InputError(f"{path}: {PICKLED}")
            there = path.stat().st_size - stream.tell()
            if math.prod(shape) * max(kind.itemsize, 1) != there or math.prod(shape) > LARGEST:
                wanted = " x ".join(map(str, shape))
                raise InputError(
                    f"{path}: its header says {wanted} {kind}, and it has {there:,} bytes; it is damaged or too large"
                )
            stream.seek(0)
            return np.lib.format.read_array(stream, allow_pickle=False)
    except (OSError, ValueError, TypeError, SyntaxError, EOFError, RecursionError, MemoryError, OverflowError) as problem:
        raise InputError(f"{path}: not an array in .npy format ({why(problem)})") from None
