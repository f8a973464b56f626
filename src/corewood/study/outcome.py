"""What a study has found: tables, a report, and the models, subnetworks and examples behind them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path

import pandas as pd

from corewood.errors import InputError, nearest
from corewood.evaluate.examples import Which, chosen
from corewood.model.gates import gated
from corewood.model.load import Model
from corewood.model.mask import Mask
from corewood.model.weights import WeightMask, weights_masked
from corewood.store.store import Store
from corewood.study.entries import read_weights
from corewood.study.models import Plan
from corewood.study.results import Results, Tables, in_front
from corewood.study.subnetwork import FULL


@dataclass(repr=False)
class Outcome:
    """What a study has found: its tables, its report, and the models and subnetworks behind them. Made by `cw.run`.

    Subnetworks have the names they have in the tables and the report. Where a study has several models, `task` and `tuning`
    (the seed of the fine-tuning) say which one's is meant.

    Example:
        >>> outcome = cw.run("study.yaml", store="store")
        >>> outcome
        <Outcome of small: complete, ... tables, report in ...>
        >>> outcome.subnetworks["subnetwork"].tolist()[-4:]
        ['l0-40-s0', 'l0-40-s1', 'l0-70-s0', 'l0-70-s1']
        >>> outcome.mask("l0-70-s0")
        <Mask ... sparsity 0.70>
        >>> model = outcome.model()  # as it was fine-tuned
        >>> with outcome.gated("l0-70-s0") as model:  # the subnetwork, as the study ran it
        ...     logits = model(**batch).logits
        >>> outcome.examples("l0-70-s0", which="lost").columns.tolist()[:5]
        ['dataset', 'example', 'first', 'second', 'case']
    """

    plan: Plan
    tables: Tables
    report: Path  # folder with report.html, figures and tables, inside the store
    store: Store
    holes: dict[str, str] = field(default_factory=dict)  # key of a job -> why it has no result
    seconds: float = 0.0
    computed: int = 0

    def __repr__(self) -> str:
        return f"<Outcome of {self.plan.spec.name}: {self.state}, {len(self.tables)} tables, report in {self.report}>"

    def _repr_html_(self) -> str:
        rows = pd.DataFrame([(name, len(table)) for name, table in self.tables.items()], columns=["table", "rows"])
        page = f"<a href='{escape((self.report / 'report.html').absolute().as_uri())}'>report</a>"
        return f"<b>{escape(self.plan.spec.name)}</b>: {self.state}, {page}{rows.to_html(index=False)}"

    @property
    def state(self) -> str:
        return "complete" if self.complete else f"{len(self.holes)} holes"

    @cached_property
    def results(self) -> Results:
        """The reader behind the tables."""
        return Results(self.plan, self.store, self.holes)

    @property
    def subnetworks(self) -> pd.DataFrame:
        """The full models and subnetworks that have all their results, one a row: their names, and how each came about."""
        return pd.DataFrame([{"subnetwork": row.name, **row.facts()} for row in self.results.rows])

    def model(self, subnetwork: str = FULL, task: str | None = None, tuning: int | None = None) -> Model:
        """The model that was pruned, loaded from the store, whole: the fine-tuned one where the study fine-tunes. It has its
        mean activations, so that `cw.gated(model, outcome.mask(name))`, `cw.predict` and `cw.slim` work as the study did."""
        return self.results.model(self.results.find(subnetwork, task, tuning))

    def mask(self, subnetwork: str, task: str | None = None, tuning: int | None = None) -> Mask | WeightMask:
        """Which units a subnetwork keeps or, where it was pruned by magnitude, which weights."""
        row = self.results.find(subnetwork, task, tuning)
        if row.masks is None:
            return self.results.units.full()
        return read_weights(self.results.entry(row.masks)) if row.of_weights else self.results.mask(row)

    @contextmanager
    def gated(self, subnetwork: str, task: str | None = None, tuning: int | None = None) -> Iterator[Model]:
        """The model of a subnetwork with its mask on, for as long as the block lasts: closed units give what they gave in the
        study."""
        model, mask = self.model(subnetwork, task, tuning), self.mask(subnetwork, task, tuning)
        stand_in = self.results.find(subnetwork, task, tuning).closed
        with weights_masked(model, mask) if isinstance(mask, WeightMask) else gated(model, mask, stand_in):
            yield model

    def examples(
        self,
        subnetwork: str,
        case: str | None = None,
        other: str | None = None,
        which: Which = "differ",
        dataset: str | None = None,
        task: str | None = None,
        tuning: int | None = None,
    ) -> pd.DataFrame:
        """The examples that a subnetwork and the full model, or a subnetwork and an `other`, answer differently.

        `which` may also be lost (the full model is right, the subnetwork wrong), gained (the reverse), wrong (all that the
        subnetwork gets wrong) or all. Columns: dataset, example (its number there), the texts, case, gold, then answer and
        probability: full, full_p of the full model, answer, answer_p of the subnetwork, other, other_p of the other; which; and
        gap, how far apart the two lie in the probability of the right answer. The widest gaps come first.
        """
        row = self.results.find(subnetwork, task, tuning)
        beside = None if other is None else self.results.find(other, row.task, row.tuning)
        sets = self.plan.tasks[row.task].datasets
        if dataset is not None and dataset not in sets:
            raise InputError(f"no dataset {dataset!r}.{nearest(dataset, sets)} There are: {', '.join(sets)}")
        tables = []
        for name in sets if dataset is None else [dataset]:
            table = self.results.examples(row, name, beside)
            tables.append(table.assign(dataset=name, example=table.index))
        table = pd.concat(tables, ignore_index=True)
        first = [column for column in ("dataset", "example", "first", "second", "case") if column in table]
        return in_front(first, chosen(table, which, case))

    @property
    def complete(self) -> bool:
        return not self.holes
