"""The questions a study can ask of its subnetworks, those that need work of their own first."""

from corewood.study.questions import (
    ablations,
    attention,
    competing,
    core,
    core_alone,
    dynamics,
    effective_size,
    examples,
    overlaps,
    patterns,
    searches,
    speed,
    spread,
    standing,
    subnetworks,
    survivors,
    tickets,
    tunings,
    verdicts,
    ways_compared,
)

WORKING = (standing, effective_size, ablations, attention, tickets, patterns, speed)  # in the order of planning
READING = (
    subnetworks, searches, spread, verdicts, tunings, core, dynamics, survivors, overlaps, ways_compared, competing, core_alone,
    examples,
)  # fmt: skip
QUESTIONS = tuple(module.QUESTION for module in (*WORKING, *READING))
