"""How exactly a model computes: float32, or autocast to 16 bits."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from corewood.errors import InputError

SHORT = 192  # tokens; measured in bfloat16: up to here attention step by step has the quicker backward pass, and fits in memory
KINDS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

# 16 bits against float32, in a process of its own: on machines that announce AMX but cannot use it, it dies of SIGILL
PROBE = """
import sys, timeit, torch
torch.set_num_threads(1)
def seconds(kind):
    x = torch.randn(512, 512).to(kind)
    x @ x
    return timeit.timeit(lambda: x @ x, number=20)
print(seconds(torch.float32) / seconds(getattr(torch, sys.argv[1])))
"""


@cache
def probe(kind: str = "bfloat16") -> tuple[bool, str]:
    """(whether this kind of number survives on this CPU, what was seen)"""
    done = subprocess.run([sys.executable, "-P", "-c", PROBE, kind], capture_output=True, text=True, check=False)
    if done.returncode == -signal.SIGILL:
        return False, "kills the process here (SIGILL); ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 may avoid it"
    if done.returncode != 0:
        return False, f"does not work here (exit code {done.returncode})"
    return True, f"works; multiplies matrices at {float(done.stdout):.2g} times the speed of float32"


def check_precision(precision: str, device: torch.device, key: str = "model.precision") -> None:
    """On a CPU, 16 bits are used only where they survive in a child process."""
    if precision not in KINDS:
        raise InputError(f"precision={precision!r}: choose {', '.join(KINDS)}")
    if precision != "float32" and device.type == "cpu":
        safe, seen = probe(precision)
        if not safe:
            raise InputError(f"{key}: {precision} {seen}; choose float32")


def has_bfloat16() -> bool:
    """Whether there is a GPU, and it has it."""
    return torch.cuda.is_available() and torch.cuda.is_bf16_supported()


def autocast(precision: str, device: torch.device) -> AbstractContextManager[Any]:
    return nullcontext() if precision == "float32" else torch.autocast(device.type, KINDS[precision])


def attention(precision: str, device: torch.device, tokens: int) -> AbstractContextManager[Any]:
    """On a CPU, the fused attention goes back in 16 bits at a tenth of its speed in float32: it was half of a search's step.
    What is computed step by step instead has the same values but for rounding."""
    slow = precision != "float32" and device.type == "cpu" and torch.is_grad_enabled() and tokens <= SHORT
    return sdpa_kernel(SDPBackend.MATH) if slow else nullcontext()
