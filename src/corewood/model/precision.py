"""Which precision is safe on this machine."""

from __future__ import annotations

import signal
import subprocess
import sys

# bfloat16 against float32, in a process of its own: on machines that announce AMX but cannot use it, it dies of SIGILL
PROBE = """
import timeit, torch
torch.set_num_threads(1)
def seconds(kind):
    x = torch.randn(512, 512).to(kind)
    x @ x
    return timeit.timeit(lambda: x @ x, number=20)
print(seconds(torch.float32) / seconds(torch.bfloat16))
"""


def probe() -> tuple[bool, str]:
    """(whether bfloat16 survives here, what was seen)"""
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=False)
    if done.returncode == -signal.SIGILL:
        return False, "kills the process here (SIGILL); ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 may avoid it"
    if done.returncode != 0:
        return False, f"does not work here (exit code {done.returncode})"
    return True, f"works; multiplies matrices at {float(done.stdout):.2g} times the speed of float32"
