"""The campaign: random attacks, each by a seed of its own, for as long as there is time. `scripts/attack` calls it."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
from faults import given, runs
from faults.given import Attack
from faults.workshop import LIGHT, WAYS, Workshop

ATTACKS: Mapping[str, Attack] = {**given.ATTACKS, **runs.ATTACKS}


@dataclass
class Tally:
    tries: int = 0
    seconds: float = 0.0
    failures: dict[int, str] = field(default_factory=dict)  # by seed


def one(name: str, seed: int, shop: Workshop) -> str:
    """What went wrong with this attack, or nothing."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return ATTACKS[name](random.Random(f"{name} {seed}"), shop)
    except Exception:
        return traceback.format_exc()[-1500:]


def campaign(seconds: float, seed: int, names: list[str], shop: Workshop, most: int | None = None) -> dict[str, Tally]:
    """Those that had least time so far come next: each kind of attack gets its share."""
    tallies = {name: Tally() for name in names}
    until = time.monotonic() + seconds
    while time.monotonic() < until:  # Ctrl-C ends it early, and what was tried is told
        left = [name for name in names if most is None or tallies[name].tries < most]
        if not left:
            break
        name = min(left, key=lambda n: tallies[n].seconds)
        mine, started = tallies[name], time.monotonic()
        try:
            problem = one(name, seed + mine.tries, shop)
        except KeyboardInterrupt:
            break
        if problem:
            mine.failures[seed + mine.tries] = problem
            print(f"{name}, seed {seed + mine.tries}: {problem}\n", file=sys.stderr, flush=True)
        mine.tries += 1
        mine.seconds += time.monotonic() - started
    return tallies


def table(tallies: Mapping[str, Tally]) -> str:
    lines = ["| campaign | tries | survived | failures, by seed |", "|---|---|---|---|"]
    for name, mine in tallies.items():
        failed = ", ".join(map(str, sorted(mine.failures))) or "none"
        lines.append(f"| {name} | {mine.tries:,} | {mine.tries - len(mine.failures):,} | {failed} |")
    tries, lost = (sum(map(count, tallies.values())) for count in (lambda t: t.tries, lambda t: len(t.failures)))
    return "\n".join([*lines, f"| all | {tries:,} | {tries - lost:,} | {lost or 'none'} |"])


def main() -> None:
    asked = argparse.ArgumentParser(
        prog="scripts/attack", description="Attack Corewood for some minutes, and say what survived."
    )
    asked.add_argument("--minutes", type=float, default=60, help="how long (60)")
    asked.add_argument("--seed", type=int, default=0, help="of the first try; each that fails is told with its own (0)")
    asked.add_argument("--only", choices=ATTACKS, action="append", help="one campaign; may be repeated (all)")
    asked.add_argument("--tries", type=int, help="of each campaign at the most; 1 repeats one that failed")
    asked.add_argument("--light", action="store_true", help="attack a study of fine-tuning and searches alone (of everything)")
    wanted = asked.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="corewood-attack-") as folder:
        shop = Workshop(Path(folder), LIGHT if wanted.light else WAYS)
        found = campaign(60 * wanted.minutes, wanted.seed, wanted.only or [*ATTACKS], shop, wanted.tries)
    print(table(found))
    sys.exit(any(mine.failures for mine in found.values()))


if __name__ == "__main__":
    main()
