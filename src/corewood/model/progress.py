"""Progress bars, in notebooks and on terminals."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from corewood.model.reference import Progress, no_progress

Show = bool | Progress  # a bar where somebody looks, none, or a function that is told (done, total)


@contextmanager
def bar(title: str, show: Show = True) -> Iterator[Progress]:
    """Gives what is to be told of progress."""
    if callable(show) or not (show and watched()):
        yield show if callable(show) else no_progress
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a notebook without widgets gets a bar of text
        from tqdm.auto import tqdm
    with tqdm(desc=title) as shown:

        def tell(done: int, total: int) -> None:
            shown.total = total
            shown.update(done - shown.n)

        yield tell
        tell(shown.total or 0, shown.total or 0)  # what ends by itself may end early


def watched() -> bool:
    """Whether somebody looks: at a terminal, or a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return sys.stderr.isatty() or (shell is not None and "IPKernelApp" in shell.config)


def part(progress: Progress, place: int, of: int) -> Progress:
    """For one of several equal parts of the work."""
    return lambda done, total: progress(place * total + done, of * total)
