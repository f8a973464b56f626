"""The examples behind a number, against a loop over them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pytest

import corewood as cw
from corewood.evaluate.examples import A_CASE, Told, chosen, examples, telling, told
from corewood.study.questions.examples import of_dataset

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


def by_loop(pairs: list[tuple[Told, Told]], number: int) -> list[int]:
    """The examples to show: by their best place in a list of what was lost, gained or is wrong otherwise."""
    best: dict[int, int] = {}
    differ: Counter[int] = Counter()
    for full, own in pairs:
        lists: dict[tuple[bool, bool], list[int]] = {}
        for i in range(len(full.answer)):
            if full.answer[i] != own.answer[i]:
                differ[i] += 1
                lists.setdefault((bool(full.right[i]), bool(own.right[i])), []).append(i)
        for one in lists.values():
            one.sort(key=lambda i: -abs(full.gold_chance[i] - own.gold_chance[i]))
            for place, i in enumerate(one):
                best[i] = min(best.get(i, place), place)
    return sorted(sorted(best, key=lambda i: (best[i], -differ[i], i))[:number])


def made_up(n: int, models: int, classes: int = 3, seed: int = 0) -> tuple[cw.Split, list[np.ndarray]]:
    """Examples of two cases, and logits of several models that agree on most of them."""
    rng, labels = np.random.default_rng(seed), tuple("abcdef"[:classes])
    gold = rng.integers(classes, size=n)
    texts = [f"{'word ' * int(rng.integers(1, 9))}{i}" for i in range(n)]
    frame = pd.DataFrame({"first": texts, "label": [labels[g] for g in gold], "case": ["one", "two"] * (n // 2)})
    shared = 2 * np.eye(classes)[gold] + rng.normal(0, 1, (n, classes))
    return cw.Split("cases", frame, labels), [shared + rng.normal(0, 0.8, (n, classes)) for _ in range(models)]


def test_the_examples_that_are_shown_are_those_of_a_plain_loop() -> None:
    split, logits = made_up(400, 9)
    full, *own = [told(split, split.labels, one) for one in logits]
    pairs = [(full, one) for one in own]
    for number in (0, 1, 7, 30, 1000):
        assert telling(pairs, number).tolist() == by_loop(pairs, number)
    assert len(telling(pairs, 30)) == 30
    kept = set(telling(pairs, 24).tolist())
    for _, one in pairs:  # three lists of eight subnetworks: the widest of each is there
        for lost in (True, False):
            rows = [i for i in range(400) if full.right[i] == lost and one.right[i] != lost]
            assert max(rows, key=lambda i: abs(full.gold_chance[i] - one.gold_chance[i])) in kept
    assert telling([(full, full)]).tolist() == []


def test_the_tables_of_a_dataset_hold_what_each_says_of_the_examples_and_how_many_there_are() -> None:
    split, logits = made_up(400, 7)
    names = [("full", 0), ("s0", 0), ("s1", 0), ("full", 1), ("s0", 1), ("s1", 1), ("s2", 1)]
    said = {(tuning, name): told(split, split.labels, one) for (name, tuning), one in zip(names, logits, strict=True)}
    by_model = [{who: own for who, own in said.items() if who[0] == tuning} for tuning in (0, 1)]
    made = of_dataset(split, by_model, "challenge")
    shown, answers, changes = (made[name] for name in ("examples", "answers", "changes"))
    for case in ("one", "two"):
        every = np.flatnonzero(split.frame["case"] == case)
        pairs = [(said[t, "full"].at(every), own.at(every)) for (t, name), own in said.items() if name != "full"]
        shortest = min(every, key=lambda i: len(split.frame["first"][i]))
        mine = shown[shown["case"] == case]
        assert mine["example"].tolist() == sorted({*every[by_loop(pairs, A_CASE)], shortest})
        assert mine.loc[mine["specimen"], "example"].tolist() == [shortest]
        assert mine["first"].tolist() == split.frame["first"][mine["example"]].tolist()
        assert mine["gold"].tolist() == split.frame["label"][mine["example"]].tolist()
    assert len(answers) == 7 * len(shown)
    for (name, tuning), one in zip(names, logits, strict=True):
        mine = answers[(answers["tuning"] == tuning) & (answers["subnetwork"] == name)].set_index("example")
        whole = examples(split, split.labels, one, logits[0 if tuning == 0 else 3])
        assert (mine["answer"] == whole.loc[mine.index, "answer"]).all()
        assert mine["probability"].to_numpy() == pytest.approx(whole.loc[mine.index, "answer_p"], abs=6e-5)
        for case in ("one", "two"):
            counts = changes[(changes["tuning"] == tuning) & (changes["subnetwork"] == name) & (changes["case"] == case)]
            (row,) = counts.to_dict("records")
            here = whole[whole["case"] == case]
            assert row["n"] == len(here) == 200
            for which in ("differ", "lost", "gained", "wrong"):
                assert row[which] == len(chosen(here, which))  # type: ignore[arg-type]
