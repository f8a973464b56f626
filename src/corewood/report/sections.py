"""The sections of a report, in the order of reading. What a study has no data for is left out."""

from __future__ import annotations

import altair as alt

from corewood.report.ablation_charts import ablation_chart, interactions_chart
from corewood.report.accuracy_charts import (
    ablated_values_chart,
    differences_chart,
    profiles_chart,
    same_in_domain_chart,
    sparsity_chart,
    spread_chart,
)
from corewood.report.attention_charts import attention_chart, maps_chart
from corewood.report.items import Drawn, Item, chart, table
from corewood.report.lottery_sections import LOTTERY_SECTIONS
from corewood.report.mask_charts import heads_chart, ranked_chart, sizes_chart, trajectories_chart, two_sparsities_chart
from corewood.report.style import Tables, styled
from corewood.report.tables import (
    ablation_table,
    convergence_table,
    core_against_rest_table,
    core_table,
    effective_size_table,
    head_table,
    size_effect_table,
    spread_table,
    subnetwork_table,
)
from corewood.report.training_charts import core_over_training_chart, dynamics_chart, effective_size_chart

CORE_SECTIONS: dict[str, tuple[Item, ...]] = {
    "Subnetworks": (
        chart(
            "spread",
            "Subnetworks on every case",
            "Each dot is a subnetwork, the grey bar their range, the red tick the full model. Dots that lie together in "
            "domain and apart on a case are subnetworks that only look alike.",
            spread_chart,
        ),
        chart(
            "same-in-domain",
            "The same in domain, different outside",
            "One point per subnetwork. A column of points above each other has one in-domain accuracy and many kinds of "
            "behaviour.",
            same_in_domain_chart,
        ),
        chart(
            "profiles",
            "One by one",
            "A row is a subnetwork, a column a case. Rows that differ in pattern generalise to different cases.",
            profiles_chart,
        ),
        chart(
            "differences",
            "Which differences are real",
            "Green: how far subnetworks of one sparsity lie apart. Red: how far equally good ones would, because the "
            "examples are a sample. Beside each bar: pairs whose answers differ by more than chance (McNemar's exact test, "
            "Holm's correction over all pairs and cases).",
            differences_chart,
        ),
        chart(
            "sparsity",
            "Accuracy against sparsity",
            "Lines join the means over seeds, bars span from the worst to the best. Click a name to see it alone; "
            "shift-click adds.",
            sparsity_chart,
        ),
        chart(
            "ablated-values",
            "What stands in for a removed unit",
            "The same masks with the mean, with zero, with another example's value in place of what was removed. Lines join "
            "one mask.",
            ablated_values_chart,
        ),
        table("spread-table", "Every case in numbers", "Over the subnetworks of one sparsity.", spread_table),
        table(
            "size-effect",
            "Accuracy and size",
            "Where subnetworks of one sparsity differ in size, how far their "
            "accuracy goes with it: Spearman's rho, and the variance a line explains. The 20 smallest p, uncorrected.",
            size_effect_table,
        ),
        table("subnetworks", "All subnetworks", "A click on a heading sorts.", subnetwork_table),
    ),
    "Heads and core": (
        chart(
            "heads",
            "Which heads survive",
            "Dark heads are kept by most subnetworks. A red ring marks the core: heads that every subnetwork keeps, at every "
            "sparsity.",
            heads_chart,
        ),
        table(
            "core",
            "The core by definition",
            "Beside each, how many heads random masks of the same sizes would share: scattered over the model, or with as "
            "many heads in each layer.",
            core_table,
        ),
        chart(
            "two-sparsities",
            "Two sparsities against each other",
            "How many heads are kept by so many subnetworks of the one sparsity (across) and of the other (up).",
            two_sparsities_chart,
        ),
        chart(
            "ranked",
            "Heads by how often they survive",
            "All panels have the order of the sparsest: what survives most there should stand left in the others too.",
            ranked_chart,
        ),
        chart("sizes", "Sizes in three currencies", "Equal numbers of units are not equal numbers of parameters.", sizes_chart),
    ),
    "Training": (
        chart(
            "dynamics",
            "Accuracy over training",
            "The full model at each checkpoint. Cases that rise after the in-domain line were learnt on top of the shortcut.",
            dynamics_chart,
        ),
        chart(
            "effective-size",
            "Effective size over training",
            "The smallest subnetwork within the margin of the full model. Hollow points are bounds, not values: the grid's "
            "edge, nothing faithful, or a full model so poor that any subnetwork is faithful to it.",
            effective_size_chart,
        ),
        chart(
            "core-over-training",
            "When the core appears",
            "Of the heads that all seeds keep at the last checkpoint, how many they keep at earlier ones; dashed by chance.",
            core_over_training_chart,
        ),
        table(
            "effective-size-table",
            "Effective size by every rule",
            "Accuracies first: averaged over seeds before a size is looked for. Seeds first: a size per seed, then averaged.",
            effective_size_table,
        ),
    ),
    "Ablations": (
        chart(
            "ablation",
            "Every unit alone",
            "The change in accuracy, in points, when one unit is removed from the full model; circles mark the core. Each "
            "panel has the scale of its heads; an MLP that costs more has the darkest red.",
            ablation_chart,
        ),
        table(
            "ablation-table",
            "Core heads removed one by one",
            "Accuracy in per cent without the unit, and the change in points; a star where the paired 95 % interval leaves "
            "out zero.",
            ablation_table,
        ),
        chart(
            "interactions",
            "Together and apart",
            "Units removed together: their joint change minus the sum of their single ones, with its 95 % interval. Below "
            "zero they matter more together than apart.",
            interactions_chart,
        ),
    ),
    "Attention": (
        table(
            "head-table",
            "What core heads mostly attend to",
            "The kind of place that gets most beyond what an even spread would give it; a head is called spread out when "
            "that is less than a fifth of its attention.",
            head_table,
        ),
        chart(
            "attention",
            "Where attention goes",
            "Every dot is a head, red ones are in the core; the dark tick is what a head gives that attends evenly to "
            "all it sees.",
            attention_chart,
        ),
        table(
            "attention-core",
            "The core against the rest",
            "Cliff's delta runs from -1 (every core head lower) to +1 (every core head higher); p by Mann and Whitney's test.",
            core_against_rest_table,
        ),
        chart(
            "maps",
            "Maps of core heads",
            "Rows look, columns are looked at; pieces of words are merged. Where a pair shares words, look at the blocks off "
            "the diagonal.",
            maps_chart,
        ),
    ),
    "Searches": (
        chart(
            "trajectories",
            "How each search went",
            "The dashed line is the target. Right, the KL of the hard mask of exact size on held-out texts: a dot for each "
            "look during the gradient steps and for each exchange after them. Lines of one size that end at different heights "
            "are searches that have not all converged.",
            trajectories_chart,
        ),
        table(
            "convergence",
            "Have they converged?",
            "KL from the full model on all held-out texts, over the searches of one size. Spread between seeds is claimed only "
            "among comparable ones: those within 1.5 times the lowest KL of their size, or 0.005 nats of it.",
            convergence_table,
        ),
    ),
}


def draw(tables: Tables) -> dict[str, list[Drawn]]:
    """Section -> what it shows; sections without data are absent."""
    alt.data_transformers.disable_max_rows()
    made: dict[str, list[Drawn]] = {}
    sections = LOTTERY_SECTIONS if "summary" in tables else CORE_SECTIONS
    for section, items in sections.items():
        for item in items:
            content = item.make(tables)
            if content is not None:
                made.setdefault(section, []).append(Drawn(item, content if item.table else styled(content)))
    return made
