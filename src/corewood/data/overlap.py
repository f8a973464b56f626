"""The generated task: sentence pairs with a planted shortcut.

In training, a hypothesis made of the premise's words is almost always entailed and any other is not; a few per
cent of counter-examples (overlap without entailment) contradict that shortcut. Validation follows the training
distribution. Every kind of counter-example is a challenge case of its own, and each has an entailed counterpart
built from the same words, so that no single word gives the label away.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pandas as pd

from corewood.data.task import Split, Task

ENTAILED, NOT_ENTAILED = "entailment", "non-entailment"

PEOPLE = (
    "baker barber butcher captain carpenter clown cook cyclist dancer dentist diver driver farmer fisher gardener "
    "goalkeeper guide hunter janitor juggler knight mayor mechanic merchant miner neighbour nun painter pianist pilot "
    "plumber poet porter potter queen sailor shepherd singer smith soldier tailor tenor thief violinist weaver widow"
).split()
# past tense and participle are the same word, so that active and passive share all their words
TRANSITIVE = (
    "admired blamed called cheered chased copied cured dismissed envied feared filmed followed greeted guarded helped "
    "hired hugged ignored invited joined kicked mocked obeyed painted praised pushed rescued sketched teased tricked "
    "visited warned"
).split()
INTRANSITIVE = (
    "blushed coughed cried fainted fell giggled hesitated jumped knelt laughed left limped paused shivered shrugged "
    "sneezed snored stumbled vanished wept whistled yawned"
).split()
NEARBY = "near behind beside opposite facing".split()
WHO = [f"who {verb}" for verb in TRANSITIVE]
PLACES = (
    "at the market;by the river;during the parade;in the attic;in the orchard;on the bridge;on the pier;"
    "under the arch;after lunch;at noon"
).split(";")
IF_WORDS = ("if", "unless", "in case", "provided that")
BECAUSE_WORDS = ("because", "since", "although", "after")
HOPED = "hoped claimed believed suspected imagined feared assumed dreamt".split()
KNEW = "knew noticed realised remembered discovered saw learnt forgot".split()
PERHAPS = "perhaps maybe possibly supposedly allegedly presumably".split()
ALMOST = "almost nearly never".split()
REALLY = "suddenly quietly really finally".split()
SURELY = "luckily sadly clearly certainly indeed unfortunately".split()

T = TypeVar("T")
Pair = tuple[str, str]


@dataclass(frozen=True)
class Draw:
    """One seeded source of words. Only `random()` is used: its stream is the same in every version of Python."""

    rng: random.Random

    def one(self, items: Sequence[T]) -> T:
        return items[int(self.rng.random() * len(items))]

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def people(self, count: int) -> list[str]:
        """Different people: in a pair of sentences nobody shares a name with somebody else."""
        chosen: list[str] = []
        while len(chosen) < count:
            person = self.one(PEOPLE)
            if person not in chosen:
                chosen.append(person)
        return [f"the {p}" for p in chosen]

    def action(self, target: str, avoid: str = "") -> str:
        """A verb phrase that may need the target, never the verb of the phrase to avoid."""
        while True:
            phrase = self.one(INTRANSITIVE) if self.chance(0.4) else f"{self.one(TRANSITIVE)} {target}"
            if phrase.split()[0] != avoid.split(" ")[0]:
                return phrase

    def tail(self) -> str:
        return f" {self.one(PLACES)}" if self.chance(0.35) else ""


def sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def swap(draw: Draw) -> Pair:
    a, b = draw.people(2)
    verb = draw.one(TRANSITIVE)
    return f"{a} {verb} {b}{draw.tail()}", f"{b} {verb} {a}"


def adjunct(draw: Draw) -> Pair:
    a, b = draw.people(2)
    clause = f"{a} {draw.one(TRANSITIVE)} {b}"
    return f"{clause} {draw.one(PLACES)}", clause


def passive(draw: Draw, agent: bool = False) -> Pair:
    a, b = draw.people(2)
    verb = draw.one(TRANSITIVE)
    return f"{a} was {verb} by {b}{draw.tail()}", f"{b} {verb} {a}" if agent else f"{a} {verb} {b}"


def described(draw: Draw, words: Sequence[str], subject: bool = False) -> Pair:
    a, b, c = draw.people(3)
    action = draw.action(c)
    return f"{a} {draw.one(words)} {b} {action}{draw.tail()}", f"{a if subject else b} {action}"


def two_clauses(draw: Draw) -> tuple[str, str]:
    a, b, c, d = draw.people(4)
    first = draw.action(b)
    return f"{a} {first}", f"{c} {draw.action(d, avoid=first)}"


def subordinate(draw: Draw, words: Sequence[str]) -> Pair:
    first, second = two_clauses(draw)
    return f"{draw.one(words)} {first}, {second}{draw.tail()}", first


def reported(draw: Draw, verbs: Sequence[str]) -> Pair:
    who, a, b = draw.people(3)
    clause = f"{a} {draw.action(b)}"
    return f"{who} {draw.one(verbs)} that {clause}{draw.tail()}", clause


def joined(draw: Draw, word: str) -> Pair:
    first, second = two_clauses(draw)
    return f"{first} {word} {second}{draw.tail()}", draw.one([first, second])


def modified(draw: Draw, words: Sequence[str], front: bool = False) -> Pair:
    a, b = draw.people(2)
    action, adverb = draw.action(b), draw.one(words)
    return f"{f'{adverb} {a}' if front else f'{a} {adverb}'} {action}{draw.tail()}", f"{a} {action}"


# case -> (counter-example, its entailed counterpart); the counterpart is a case of its own
CASES: dict[tuple[str, str], tuple[Callable[[Draw], Pair], Callable[[Draw], Pair]]] = {
    ("swap", "adjunct"): (swap, adjunct),
    ("passive", "passive agent"): (passive, lambda d: passive(d, agent=True)),
    ("prepositional", "prepositional subject"): (lambda d: described(d, NEARBY), lambda d: described(d, NEARBY, subject=True)),
    ("relative", "relative subject"): (lambda d: described(d, WHO), lambda d: described(d, WHO, subject=True)),
    ("if", "because"): (lambda d: subordinate(d, IF_WORDS), lambda d: subordinate(d, BECAUSE_WORDS)),
    ("hoped", "knew"): (lambda d: reported(d, HOPED), lambda d: reported(d, KNEW)),
    ("or", "and"): (lambda d: joined(d, "or"), lambda d: joined(d, "and")),
    ("almost", "suddenly"): (lambda d: modified(d, ALMOST), lambda d: modified(d, REALLY)),
    ("perhaps", "surely"): (lambda d: modified(d, PERHAPS, front=True), lambda d: modified(d, SURELY, front=True)),
}
COUNTER = {pair[0]: makers[0] for pair, makers in CASES.items()}
OVERLAP = {pair[1]: makers[1] for pair, makers in CASES.items()}
COUNTERPARTS = {case: " / ".join(pair) for pair in CASES for case in pair}  # case -> what both of a pair are called


def unrelated(draw: Draw) -> Pair:
    """Low overlap: any premise, and a hypothesis with a person and a verb that the premise does not have."""
    premise, _ = draw.one([*OVERLAP.values(), *COUNTER.values()])(draw)
    used = premise.replace(",", "").split()
    while True:
        a, b = draw.people(2)
        action = draw.action(draw.one([b, *[f"the {w}" for w in used if w in PEOPLE]]))
        if a.split()[1] not in used and action.split()[0] not in used and a not in action:
            return premise, f"{a} {action}"


def rows(draw: Draw, count: int, counter: float, seen: set[Pair]) -> pd.DataFrame:
    """In-domain pairs: `counter` of them contradict the shortcut, the rest follow it, half entailed."""
    made: list[tuple[str, ...]] = []
    cases, entailed = list(COUNTER.values()), list(OVERLAP.values())
    while len(made) < count:
        if draw.chance(counter):
            pair, label = draw.one(cases)(draw), NOT_ENTAILED
        elif draw.chance(0.5):
            pair, label = draw.one(entailed)(draw), ENTAILED
        else:
            pair, label = unrelated(draw), NOT_ENTAILED
        if pair not in seen:
            seen.add(pair)
            made.append((sentence(pair[0]), sentence(pair[1]), label))
    return pd.DataFrame(made, columns=["first", "second", "label"])


def case_rows(draw: Draw, per_case: int, seen: set[Pair]) -> pd.DataFrame:
    made = []
    for group, label, makers in (("counter-example", NOT_ENTAILED, COUNTER), ("overlap", ENTAILED, OVERLAP)):
        for case, make in makers.items():
            for _ in range(per_case):
                while (pair := make(draw)) in seen:
                    pass
                seen.add(pair)
                made.append((sentence(pair[0]), sentence(pair[1]), label, case, group))
    return pd.DataFrame(made, columns=["first", "second", "label", "case", "group"])


def overlap(seed: int = 0, train: int = 12_000, validation: int = 1_000, per_case: int = 100, counter: float = 0.04) -> Task:
    """The embedded task. No pair occurs twice, in one split or in two."""
    seen: set[Pair] = set()
    draw = {part: Draw(random.Random(f"overlap {seed} {part}")) for part in ("train", "validation", "cases")}
    labels = (ENTAILED, NOT_ENTAILED)
    return Task(
        name="overlap",
        labels=labels,
        train=Split("train", rows(draw["train"], train, counter, seen), labels),
        validation=Split("validation", rows(draw["validation"], validation, counter, seen), labels),
        challenge={"cases": Split("cases", case_rows(draw["cases"], per_case, seen), labels)},
    )
