"""Ways to spoil bytes and texts, by a seed."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

# values that have broken something somewhere
NASTY = [
    "0", "-1", "1e999", ".inf", "-.inf", ".nan", "9" * 30, "9" * 5000, "0x" + "f" * 60, "1_e", "null", "~", "true", "no",
    "[]", "{}", "[[]]",
    "''", '"\\uD800"', '"\\0"', '"\\e[2J"', "2024-13-45", "1:2:3", "!!python/object/apply:os.system [id]", "!x y", "*a",
    "&a [*a]", "<<",
    "x" * 300, "x" * 30_000, "~nosuchuser/x", "/", "..", "/dev/zero", "/proc/self/mem", "\x1b[31m", "<!--<script>", "=1+1",
    "é\u202e", "%",
    "[" * 200, "{a: " * 60, "- - - -", "\t", "1000000", "1000000000", "all", "auto", "core", "l0", "minilm", "[0, 0]",
    "[1, 2, 3]",
]  # fmt: skip
HOSTILE = [
    "<!--<script>", "</script><script>alert(1)</script>", "\x1b]0;owned\x07", "\x1b[2J", "=1+1", "@x", "-2+3", "\t=1",
    "'\"><img src=x>",
    "a\rb", "$title ${x}", "{{x}}", "%s%n", "\u202egnp", "\u2028", "datum.x", "a.b[c]\\d", "null", "all ", "__proto__",
    "constructor",
    "[red]x[/red]", "[/dim]", "a:Q", "x" * 3000, "名前", "🜁", "\x9b31m", "a\nb", "' OR 1", "NaN", "true", "1e5", "\\", "a'b",
]  # fmt: skip


def spoilt_bytes(rng: random.Random, content: bytes) -> bytes:
    """Flipped, cut, overwritten, doubled or emptied."""
    made = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 3, 20))):
        at = rng.randrange(len(made)) if made else 0
        how = rng.randrange(7)
        if how == 0 and made:
            made[at] ^= 1 << rng.randrange(8)
        elif how == 1 and made:
            made[at] = rng.choice((0, 0xFF, 0x80, 0x7F, rng.randrange(256)))
        elif how == 2:
            del made[at:]
        elif how == 3:
            del made[at : at + rng.randrange(1, 64)]
        elif how == 4:
            made[at:at] = rng.randbytes(rng.randrange(1, 32))
        elif how == 5:
            made[at:at] = made[at : at + rng.randrange(1, 4096)]
        elif how == 6 and len(made) > 8:
            made[at : at + 8] = rng.choice((b"\xff" * 8, b"\0" * 8, b"\x7f" + b"\xff" * 7))
    return bytes(made) if rng.random() > 0.01 else b""


def spoilt_text(rng: random.Random, text: str, nasty: list[str] = NASTY) -> str:
    """Values replaced by nasty ones, lines doubled, dropped, moved; now and then a character."""
    lines = text.split("\n")
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(lines))
        how = rng.randrange(6)
        if how <= 2:
            values = [*re.finditer(r"[^\s\[\]{},:\"']+", lines[at])]
            if values:
                one = rng.choice(values)
                lines[at] = lines[at][: one.start()] + rng.choice(nasty) + lines[at][one.end() :]
        elif how == 3:
            lines.insert(at, lines[rng.randrange(len(lines))])
        elif how == 4 and len(lines) > 1:
            del lines[at]
        elif how == 5 and lines[at]:
            place = rng.randrange(len(lines[at]))
            lines[at] = (
                lines[at][:place]
                + rng.choice(["\0", "\t", ":", "{", "}", "[", "*", "&a ", "\ufeff", '"', "\x7f"])
                + lines[at][place:]
            )
    return "\n".join(lines)


def spoil(rng: random.Random, path: Path, text: bool = False) -> str:
    """A file as above; what was done."""
    content = path.read_bytes()
    if text and rng.random() < 0.7:
        path.write_text(spoilt_text(rng, content.decode("utf-8", "replace")), encoding="utf-8", errors="surrogatepass")
    else:
        path.write_bytes(spoilt_bytes(rng, content))
    return path.name


def harm(rng: random.Random, files: list[Path]) -> str:
    """To one of these files: its bytes, its being there, its being a file, or its being this one."""
    path = rng.choice(files)
    how: Callable[[], object] = rng.choice(
        (lambda: spoil(rng, path),) * 4 + (path.unlink, lambda: swap(path, rng.choice(files)))
    )
    how()
    return str(path)


def swap(one: Path, other: Path) -> None:
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)
