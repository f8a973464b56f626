"""The sections of a lottery's report, in the order of reading."""

from __future__ import annotations

from corewood.report.items import Item, chart, table
from corewood.report.lottery_tables import (
    bad_table,
    heterogeneity_table,
    in_good_table,
    longer_table,
    methods_table,
    notes_table,
    quality_table,
    scores_table,
    stability_table,
)
from corewood.report.method_charts import importance_chart, importance_rounds_chart, methods_chart
from corewood.report.pattern_charts import pattern_heads_chart, pattern_shares_chart
from corewood.report.survivor_charts import alone_chart, over_tasks_chart, overlaps_chart, pairs_chart, survivors_chart
from corewood.report.ticket_charts import rounds_chart, stays_chart, super_survivors_chart, tickets_chart

LOTTERY_SECTIONS: dict[str, tuple[Item, ...]] = {
    "Tickets": (
        chart(
            "tickets",
            "Good, random and bad subnetworks",
            "Bars are means over seeds, thin lines one standard deviation, dots single seeds; s is importance pruning of heads "
            "and MLPs, m magnitude pruning of weights. The dark line in its grey band is the full model ± one standard "
            "deviation, the dashed one the majority class: dark bars that reach the band are winning tickets.",
            tickets_chart,
        ),
        chart(
            "super-survivors",
            "Super-survivors alone",
            "The same for the units that survive with every seed, for as many that survive least (bad), and for as many of the "
            "others (random). Where all three retrain alike, what survives is not what the task needs.",
            super_survivors_chart,
        ),
        table(
            "scores-table",
            "All tickets in numbers",
            "Mean ± standard deviation over seeds, in each task's own metric. A star: reaches the full model less one standard "
            "deviation. A dagger: see the remarks below.",
            scores_table,
        ),
        table(
            "bad-table",
            "How bad are bad ones?",
            "Bad subnetworks after retraining beside a model that knows nothing and one that was never pretrained. The average "
            "is over tasks, each counting the same, and only given where no task is missing.",
            bad_table,
        ),
        table(
            "longer-table",
            "Bad ones, retrained for longer",
            "If these rows rise, bad subnetworks only learn more slowly; if not, they lack something.",
            longer_table,
        ),
        table(
            "in-good",
            "How much of bad is good",
            "Where pruning keeps more than half, bad subnetworks must be filled up from the good one. Random ones share what "
            "chance gives; the less a bad one shares, the fairer the comparison. Counterparts of super-survivors are drawn "
            "from the other units, as far as they go.",
            in_good_table,
        ),
        table(
            "notes",
            "Remarks on scores",
            "Scores that are no numbers, or that stand for something else; how many there are, and whose.",
            notes_table,
        ),
    ),
    "Pruning": (
        chart(
            "rounds",
            "Score against what is left",
            "One line per seed: units for s-pruning, weights for m-pruning. Dashed lines are the thresholds of the seeds; red "
            "crosses are rounds that fell below and were taken back.",
            rounds_chart,
        ),
        chart(
            "stays",
            "How much stays",
            "Mean ± standard deviation over seeds. Heads and MLPs pruned together are fewer in weights than either pruned "
            "alone if the two can stand in for each other.",
            stays_chart,
        ),
        chart(
            "importance",
            "Importance scores at the start",
            "How many units score how much before anything is removed. A heap near zero is many units that could go with "
            "equal right, so that chance decides which do.",
            importance_chart,
        ),
        chart(
            "importance-rounds",
            "Importance scores over the rounds",
            "The line is the median of what is left, the bands hold half and nine tenths of it. Where scores of heads are "
            "divided by their layer's norm, they rise when a layer has fewer.",
            importance_rounds_chart,
        ),
    ),
    "Survivors": (
        chart(
            "survivors",
            "Which units survive",
            "Left: in what share of seeds a head or MLP survives. Right: what share of its weights does. The mean, and below "
            "it the standard deviation over seeds.",
            survivors_chart,
        ),
        chart(
            "over-tasks",
            "Over all tasks",
            "Left: in how many tasks a unit survives, mean ± standard deviation over seeds. Dark units are needed whatever the "
            "task is.",
            over_tasks_chart,
        ),
        chart(
            "survivors-alone",
            "Heads alone, MLPs alone",
            "What survives when only heads, or only MLPs, are pruned: two searches in one grid.",
            alone_chart,
        ),
    ),
    "Stability": (
        table(
            "stability",
            "Do seeds keep the same units?",
            "Fleiss' kappa is 1 where they do. Chance: random masks of the same sizes, scattered over the model or with as "
            "many units in each layer; p is the share of them that agree as much. Cochran's Q asks another question: whether "
            "seeds keep equally many.",
            stability_table,
        ),
        chart(
            "pairs",
            "Seeds two by two",
            "A dot is two seeds of a task. Dark circles share more than random masks of their sizes would (Holm's correction "
            "over a task's pairs); the tick is what chance gives.",
            pairs_chart,
        ),
    ),
    "Between tasks": (
        chart(
            "overlaps",
            "What tasks share",
            "Units that two tasks share, mean ± standard deviation over seeds; in brackets, what independent tasks would. A "
            "red frame: more than that (p < 0.05, before any correction for many pairs). Grey: a task's own size.",
            overlaps_chart,
        ),
    ),
    "Patterns": (
        chart(
            "pattern-shares",
            "Types of attention",
            "Shares of pattern types over maps. If super-survivors did the linguistic work, their bars would hold more of "
            "heterogeneous than those of all heads. A task without super-survivors has no bar there.",
            pattern_shares_chart,
        ),
        chart(
            "pattern-heads",
            "What each head mostly does",
            "The most frequent type of each head, paler where it is less frequent; rings mark super-survivors.",
            pattern_heads_chart,
        ),
        table(
            "heterogeneity",
            "Do heterogeneous heads survive?",
            "The correlation, over heads, of surviving with every seed and the share of heterogeneous maps.",
            heterogeneity_table,
        ),
        table(
            "pattern-quality",
            "How good the classifier is",
            "F1, and in brackets the number of maps. What it confuses, the charts above confuse.",
            quality_table,
        ),
    ),
    "Methods": (
        chart(
            "methods",
            "Ways of pruning at the same size",
            "Left: accuracy with its 95 % interval over seeds and examples, in domain first. Right: the difference from L0 on "
            "the same seeds and examples; a filled point's interval leaves out zero.",
            methods_chart,
        ),
        table(
            "methods-table",
            "The same in numbers",
            "Accuracy in per cent [95 % interval]; a star where the interval of the difference from L0 leaves out zero.",
            methods_table,
        ),
    ),
}
