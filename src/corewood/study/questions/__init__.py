"""The questions a study can ask of its subnetworks, in the order of planning."""

from corewood.study.questions import (
    ablations,
    attention,
    core,
    dynamics,
    effective_size,
    overlaps,
    patterns,
    searches,
    spread,
    subnetworks,
    survivors,
    tickets,
    tunings,
    ways_compared,
)

QUESTIONS = tuple(
    module.QUESTION
    for module in (
        subnetworks,
        searches,
        spread,
        tunings,
        core,
        dynamics,
        effective_size,
        ablations,
        attention,
        tickets,
        survivors,
        overlaps,
        patterns,
        ways_compared,
    )
)
