"""What can be asked, by name: each a run of steps for the worker, with models and answers that are held for a while."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from corewood.errors import InputError
from corewood.explore import answers, keep
from corewood.explore.asked import OfCases, OfExample, OfHead, OfMask, OfModel, OfText, Place, ToKeep
from corewood.explore.sample import STEP, Part, begin, judged
from corewood.explore.subject import Preset, Subject
from corewood.explore.worker import Steps, Worker
from corewood.model.load import Model
from corewood.model.mask import Mask

MODELS = 2  # that are held at once: a slider goes to and fro
ANSWERS = 256  # of full models
EXAMPLES = 100  # of a case, to look through
LABELLED = 64  # examples for the importance of units


class Room:
    """All but the subject is touched by the worker's thread alone."""

    def __init__(self, subject: Subject) -> None:
        self.subject, self.worker = subject, Worker()
        self.models: OrderedDict[Place, tuple[Model, dict[str, float]]] = OrderedDict()
        self.known: OrderedDict[Any, np.ndarray] = OrderedDict()

    def paced(self, place: Place) -> tuple[Model, dict[str, float]]:
        """A model, and the seconds that a text of usual length takes it: alone, and among others."""
        if place not in self.models:
            self.subject.check(place)
            while len(self.models) >= MODELS:
                self.models.popitem(last=False)
            model = self.subject.read(place)
            paces = {"alone": answers.pace(model, 1), "among": answers.pace(model, STEP)}
            self.models[place] = model, {name: round(seconds, 6) for name, seconds in paces.items()}
        self.models.move_to_end(place)
        return self.models[place]

    def model(self, place: Place) -> Model:
        return self.paced(place)[0]

    def masked(self, asked: OfMask | ToKeep) -> tuple[Model, Mask]:
        model = self.model(asked.place)
        return model, answers.mask_of(asked.mask, model.units)

    def parts(self, place: Place, each: int) -> list[Part]:
        self.subject.check(place)
        return self.subject.parts(place, each)


def bits(mask: Mask) -> str:
    return "".join("1" if kept else "0" for kept in mask.vector)


def preset(found: Preset) -> dict[str, Any]:
    return {**vars(found), "mask": bits(found.mask)}


def describe(room: Room, asked: OfModel) -> Steps:
    yield 0, 1
    subject, place = room.subject, asked.place
    model, seconds = room.paced(place)
    parts = room.parts(place, EXAMPLES)
    cases = [
        {"dataset": part.dataset, "case": case, "group": group, "n": int(inside.sum())}
        for part in parts
        for case, group, inside in part.cases
    ]
    return {
        "units": vars(model.units),
        "labels": list(model.labels),
        "longest": model.max_length,
        "seconds": seconds,
        "presets": [preset(one) for one in subject.presets(place)],
        "saved": [preset(Preset(name, "yours", mask)) for name, mask in keep.saved(subject, model.units).items()],
        "colourings": [asdict(one) for one in subject.colourings(place, model.units)],
        "cases": cases,
        "begin": begin(parts),
    }


def answer(room: Room, asked: OfText) -> Steps:
    model, mask = room.masked(asked)
    while len(room.known) > ANSWERS:
        room.known.popitem(last=False)
    key = asked.place, asked.texts
    return (yield from answers.answer(model, asked.texts, mask, asked.ablate, room.known, key))


def size(room: Room, asked: OfMask) -> Steps:
    yield 0, 1
    model, mask = room.masked(asked)
    return mask.sizes(model.units)


def flips(room: Room, asked: OfText) -> Steps:
    model, mask = room.masked(asked)
    return (yield from answers.flips(model, asked.texts, mask, asked.ablate))


def speed(room: Room, asked: OfText) -> Steps:
    model, mask = room.masked(asked)
    return (yield from answers.speed(model, asked.texts, mask, asked.ablate))


def attention(room: Room, asked: OfHead) -> Steps:
    model, mask = room.masked(asked)
    own = mask if asked.masked else model.units.full()
    return (yield from answers.attention(model, asked.texts, own, asked.ablate, asked.layer, asked.head, asked.normed))


def cases(room: Room, asked: OfCases) -> Steps:
    model, mask = room.masked(asked)
    return (yield from judged(model, mask, asked.ablate, room.parts(asked.place, asked.each)))


def example(room: Room, asked: OfExample) -> Steps:
    yield 0, 1
    for part in room.parts(asked.place, EXAMPLES):
        found = part.example(asked.case, asked.number) if part.dataset == asked.dataset else {}
        if found:
            return found
    raise InputError(f"there is no case {asked.case!r} of {asked.dataset!r}")


def importance(room: Room, asked: OfMask) -> Steps:
    model, parts = room.model(asked.place), room.parts(asked.place, LABELLED)
    if not parts:
        raise InputError("importance needs examples with labels, and there are none")
    return (yield from answers.importance(model, parts[0], asked.ablate))


def save(room: Room, asked: ToKeep) -> Steps:
    yield 0, 1
    _, mask = room.masked(asked)
    path = keep.save(room.subject, asked.name, mask)
    return {"file": f"{room.subject.masks.name}/{path.name}", "preset": preset(Preset(path.stem, "yours", mask))}


def python(room: Room, asked: OfText) -> Steps:
    yield 0, 1
    model, mask = room.masked(asked)
    regression = len(model.labels) == 1
    return {"python": keep.python(room.subject, asked.place, mask, asked.ablate, asked.texts, regression)}


# what a request is called -> what it holds, what it does, and how urgent it is
WORK: dict[str, tuple[type[OfModel], Callable[[Room, Any], Steps], int]] = {
    "model": (OfModel, describe, 0),
    "answer": (OfText, answer, 1),
    "size": (OfMask, size, 1),
    "save": (ToKeep, save, 1),
    "python": (OfText, python, 1),
    "example": (OfExample, example, 2),
    "attention": (OfHead, attention, 2),
    "flips": (OfText, flips, 3),
    "speed": (OfText, speed, 4),
    "importance": (OfMask, importance, 4),
    "cases": (OfCases, cases, 5),
}
