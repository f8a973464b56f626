"""What a model learns on the subcases of HANS that it was taught, and on those that it never saw, and what pruning leaves.

    .venv/bin/python bench/taught.py REPORT

REPORT is the folder that `corewood run studies/mnli-hans-taught.yaml --preset gte` has written. A row per fine-tuning and
checkpoint, and per subnetwork: per cent right of the subcases that are not entailed and of those that are (means over
subcases), and d', which both make together: how far apart the two lie, whichever answer is given more often. 0 is a coin.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd
import yaml
from claims import in_markdown, report_tables
from scipy.stats import norm

from corewood.data.layouts import HANS_CASES

STUDY = Path(__file__).parents[1] / "studies" / "mnli-hans-taught.yaml"


def taught() -> set[str]:
    """The names of the subcases in training."""
    (part,) = [part for part in yaml.safe_load(STUDY.read_text(encoding="utf-8"))["task"]["train"] if "only" in part]
    return {HANS_CASES[subcase] for subcase in part["only"]["subcase"]}


def rows_of(scores: pd.DataFrame) -> pd.DataFrame:
    """Step 0, whose answers are those of a new layer, is left out."""
    rows = scores[(scores["domain"] == "challenge") & (scores["metric"] == "accuracy") & (scores["case"] != "all")]
    rows = rows[(rows["question"].isin(["full", "prune"])) & rows["way"].isin(["full", "l0"]) & (rows["checkpoint"] > 0)]
    rows = rows.assign(part=rows["case"].isin(taught()).map({True: "taught", False: "unseen"}))
    found = []
    for (tuning, checkpoint, who), mine in rows.groupby(["tuning", "checkpoint", "subnetwork"], sort=False):
        row: dict[str, object] = {"fine-tuning": tuning, "of": f"step {checkpoint}" if who == "full" else who}
        for part in ("taught", "unseen"):
            right = mine[mine["part"] == part].groupby("gold")["value"].mean()  # every subcase has as many examples
            row |= {f"{part}, {gold}": f"{100 * value:.0f}" for gold, value in right.sort_index(ascending=False).items()}
            row[f"{part}, d'"] = f"{norm.ppf(right.clip(0.001, 0.999)).sum().round(2) + 0:.2f}"
        found.append(row)
    return pd.DataFrame(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path, help="folder that `corewood run` or `corewood report` has written")
    print(in_markdown(rows_of(report_tables(parser.parse_args().report)["scores"])))


if __name__ == "__main__":
    main()
