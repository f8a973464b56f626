"""Clicks on the live page of MiniLM: how long an answer takes over HTTP, and whether memory stays flat.

    .venv/bin/python bench/explore.py [--clicks N]

The server is the command itself, in a process of its own with one thread; the text has 20 tokens. Every click closes or opens
one unit and asks for the answer, as the page does; every tenth also asks for the single ablations and an attention map. Beside
the answer stands what the library takes for the same two runs of the model, in this process: their ratio is what the server
adds.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import psutil
from common import minilm

from corewood.explore.answers import encoded, logits_on
from corewood.model.load import Model

TEXTS = ["The fisher who dismissed the thief cried near the old house today.", "The thief cried."]


class Client:
    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self.port, self.token = parts.port or 0, parse_qs(parts.query)["token"][0]
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port)

    def ask(self, kind: str, **body: Any) -> Any:
        place = {"task": "", "tuning": 0, "step": 0}
        content = {"tab": "bench", "place": place, "ablate": "zero", "first": TEXTS[0], "second": TEXTS[1], **body}
        headers = {"Content-Type": "application/json", "Cookie": f"corewood-{self.port}={self.token}"}
        self.connection.request("POST", f"/api/{kind}", json.dumps(content), headers)
        return self.connection.getresponse().read()


def library(model: Model, rounds: int) -> float:
    """Seconds of the mask's answer: the full model's is known after the first click."""
    examples, mask, times = encoded(model, TEXTS), model.units.without("L2.H3", "L4.H1"), []
    for _ in range(rounds):
        started = time.perf_counter()
        logits_on(model, examples, mask, "zero")
        times.append(time.perf_counter() - started)
    return float(np.median(times))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--clicks", type=int, default=2000)
    clicks = parser.parse_args().clicks
    model, rng = minilm(), np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        words = [sys.executable, "-m", "corewood", "explore", folder, "--no-browser"]
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, text=True, cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
        assert process.stdout is not None
        client, watched = Client(process.stdout.readline().strip()), psutil.Process(process.pid)
        tokens = len(encoded(model, TEXTS).ids)
        print(f"{tokens} tokens\n{'clicks':>7} {'answer':>9} {'library':>9} {'ratio':>6} {'memory':>9}   (median ms; MiB)")
        mask, times = np.ones(len(model.units), int), list[float]()
        for click in range(1, clicks + 1):
            mask[rng.integers(len(mask))] ^= 1
            bits = "".join(map(str, mask))
            started = time.perf_counter()
            client.ask("answer", mask=bits)
            times.append(time.perf_counter() - started)
            if click % 10 == 0:
                client.ask("flips", mask=bits)
                client.ask("attention", mask=bits, layer=2, head=3, normed=False, masked=True)
            if click in (50, 200) or click % 500 == 0:
                answer, own, memory = np.median(times), library(model, 9), watched.memory_info().rss / 2**20
                print(f"{click:7} {1000 * answer:9.1f} {1000 * own:9.1f} {answer / own:5.2f}x {memory:9.1f}", flush=True)
                times = []
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()
