"""What can go wrong, as a tree.

CorewoodError
├── InputError          something the user gave: a study, a file, a label, a mask; the message says what to change
│   ├── StudyError      the study file itself; collects every mistake in it
│   └── SettingError    settings given in Python, such as cw.L0(...); a ValueError, too
├── StoreError          the store cannot be read or written: full disk, no permission
├── ClusterError        workers cannot be had, or cannot do this study: a wrong address, a refused job, another version
└── JobError            one job of a study failed; the others go on

The command line prints any of these without a traceback.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

TOLD = 40  # mistakes in one message
COMPARED = 200  # characters of a name, and names, that are looked through for one that is near


class CorewoodError(Exception):
    """Anything the user can act upon; the message says how.

    Example:
        >>> try:
        ...     cw.load("./nothing-here")
        ... except cw.CorewoodError as problem:
        ...     print(problem)
        ./nothing-here: there is no such folder (looked at ...)
    """


class InputError(CorewoodError):
    """The user's input cannot be used as it is.

    Example:
        >>> cw.L0(sparcity=0.5)
        Traceback (most recent call last):
        corewood.errors.SettingError: L0: sparcity: unknown key. Did you mean 'sparsity'?
    """


class StudyError(InputError):
    """One or more mistakes in a study file, shown together."""

    def __init__(self, source: str, mistakes: Iterable[str]) -> None:
        self.source = source
        self.mistakes = list(mistakes)
        count = "1 mistake" if len(self.mistakes) == 1 else f"{len(self.mistakes)} mistakes"
        more = [f"and {len(self.mistakes) - TOLD} more"] if len(self.mistakes) > TOLD else []
        super().__init__(f"{source}: {count}\n" + "\n".join(f"  - {m}" for m in [*self.mistakes[:TOLD], *more]))


class SettingError(InputError, ValueError):
    """Settings given in Python that cannot be used as they are."""


class StoreError(CorewoodError):
    """The store cannot be read or written."""


class ClusterError(CorewoodError):
    """Workers cannot be had, or cannot do this study."""


class JobError(CorewoodError):
    """A job could not finish; its result is a hole with this reason."""


def nearest(given: str, allowed: Iterable[str]) -> str:
    """' Did you mean X?' when some allowed name is close to the given one, else nothing."""
    close = get_close_matches(given[:COMPARED], list(islice(allowed, COMPARED)), n=1, cutoff=0.6)
    return f" Did you mean {close[0]!r}?" if close else ""
