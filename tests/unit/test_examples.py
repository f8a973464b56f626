"""The examples behind a number, against a loop over them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import corewood as cw
from corewood.evaluate.examples import chosen, examples

CLASSES = ("contradiction", "entailment", "neutral")
SPLIT = cw.Split(
    "hans",
    pd.DataFrame(
        {
            "first": [f"text {i}" for i in range(40)],
            "second": ["other"] * 40,
            "label": ["entailment", "non-entailment"] * 20,
            "case": ["swap"] * 20 + ["if"] * 20,
        }
    ),
    ("entailment", "non-entailment"),
    {"neutral": "non-entailment", "contradiction": "non-entailment"},
)
RNG = np.random.default_rng(0)
ONE, FULL, OTHER = (RNG.normal(0, 2, (40, 3)) for _ in range(3))


def by_hand(logits: np.ndarray, i: int) -> tuple[str, float, float]:
    """(answer, its probability, the probability of the right answer)"""
    weights = [float(np.exp(v)) for v in logits[i]]
    chance = {CLASSES[c]: weights[c] / sum(weights) for c in range(3)}
    label = {"entailment": chance["entailment"], "non-entailment": chance["neutral"] + chance["contradiction"]}
    best = max(chance, key=lambda name: chance[name])
    answer = best if best == "entailment" else "non-entailment"
    return answer, label[answer], label[SPLIT.frame["label"][i]]


def test_every_example_has_both_answers_and_their_probabilities() -> None:
    table = examples(SPLIT, CLASSES, ONE, FULL, OTHER)
    assert len(table) == 40
    kinds = set()
    for i, row in table.iterrows():
        gold = SPLIT.frame["label"][i]
        told = {who: by_hand(logits, i) for who, logits in (("answer", ONE), ("full", FULL), ("other", OTHER))}
        for who, (answer, chance, _) in told.items():
            assert row[who] == answer
            assert row[f"{who}_p"] == pytest.approx(chance)
        full, own = told["full"][0] == gold, told["answer"][0] == gold
        assert row["which"] == {(True, False): "lost", (False, True): "gained", (False, False): "wrong"}.get(
            (full, own), "right"
        )
        assert row["gap"] == pytest.approx(abs(told["answer"][2] - told["other"][2]))
        assert (row["first"], row["case"], row["gold"]) == (f"text {i}", SPLIT.frame["case"][i], gold)
        kinds.add(row["which"])
    assert kinds == {"lost", "gained", "wrong", "right"}
    alone = examples(SPLIT, CLASSES, ONE, FULL)
    assert "other" not in alone
    assert alone["gap"][3] == pytest.approx(abs(by_hand(ONE, 3)[2] - by_hand(FULL, 3)[2]))


def test_which_are_chosen() -> None:
    table, pair = examples(SPLIT, CLASSES, ONE, FULL), examples(SPLIT, CLASSES, ONE, FULL, OTHER)
    answers = {
        who: [by_hand(logits, i)[0] for i in range(40)] for who, logits in (("one", ONE), ("full", FULL), ("other", OTHER))
    }
    gold = SPLIT.frame["label"].tolist()

    def those(*hold: bool) -> set[int]:
        return {i for i, true in enumerate(hold) if true}

    right = {who: [a == g for a, g in zip(said, gold, strict=True)] for who, said in answers.items()}
    lost = those(*(f and not o for f, o in zip(right["full"], right["one"], strict=True)))
    gained = those(*(o and not f for f, o in zip(right["full"], right["one"], strict=True)))
    assert set(chosen(table, "lost").index) == lost
    assert set(chosen(table, "gained").index) == gained
    assert set(chosen(table).index) == lost | gained  # two labels: where answers differ, one of them is right
    assert set(chosen(table, "wrong").index) == those(*(not o for o in right["one"]))
    assert set(chosen(table, "lost", "if").index) == {i for i in lost if i >= 20}
    assert set(chosen(pair).index) == those(*(a != b for a, b in zip(answers["one"], answers["other"], strict=True)))
    assert len(chosen(table, "all")) == 40
    assert chosen(table)["gap"].is_monotonic_decreasing
    with pytest.raises(cw.InputError, match=r"no case 'swop'\. Did you mean 'swap'"):
        chosen(table, case="swop")
    with pytest.raises(cw.InputError, match=r"which='loss': choose one of differ, lost, .* Did you mean 'lost'"):
        chosen(table, "loss")  # type: ignore[arg-type]
    scores = cw.Split("scores", pd.DataFrame({"first": ["a"], "label": [1.5]}), ())
    with pytest.raises(cw.InputError, match="its labels are numbers"):
        examples(scores, ("score",), ONE[:1, :1], FULL[:1, :1])
