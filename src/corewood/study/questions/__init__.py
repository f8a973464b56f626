"""The questions a study can ask of its subnetworks, those that need work of their own first."""

from corewood.study.questions import (
    ablations,
    attention,
    core,
    dynamics,
    effective_size,
    overlaps,
    patterns,
    searches,
    speed,
    spread,
    subnetworks,
    survivors,
    tickets,
    tunings,
    verdicts,
    ways_compared,
)

WORKING = (effective_size, ablations, attention, tickets, patterns, speed)  # in the order of planning
READING = (subnetworks, searches, spread, verdicts, tunings, core, dynamics, survivors, overlaps, ways_compared)
QUESTIONS = tuple(module.QUESTION for module in (*WORKING, *READING))
