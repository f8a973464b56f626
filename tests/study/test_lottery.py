"""Everything When BERT Plays the Lottery reports, from one study file: each table against a second source."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import small
import torch
import yaml
from scipy.stats import pearsonr
from sklearn.metrics import matthews_corrcoef
from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa

import corewood as cw
from corewood.analyse.generalisation import of_cases
from corewood.data.encode import encode
from corewood.data.labels import gold_classes
from corewood.data.read import drawn
from corewood.errors import InputError, StudyError
from corewood.evaluate.attention import split_words
from corewood.evaluate.patterns import Classifier, pattern_shares
from corewood.model.finetune import fine_tune
from corewood.model.gates import gated
from corewood.model.load import Model, load
from corewood.model.weights import encoder_weights
from corewood.prune.l0 import held_out
from corewood.spec import FineTune, parse_study, read_study
from corewood.store.store import Store
from corewood.study.cost import estimate
from corewood.study.engines import Inline
from corewood.study.entries import read_masks, read_reference, read_weights
from corewood.study.plan import Plan, make_plan
from corewood.study.results import Results
from corewood.study.run import Outcome, asked, provenance, run, run_study
from corewood.study.subnetwork import Subnetwork

STRICTER = "[{prune: [both, heads, mlps], threshold: 0.85}, {like: l0}]"
UNITS: dict[str, Any] = {"way": "importance", "prune": "both", "target": 0.0}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.write_lottery(tmp_path_factory.mktemp("lottery"))


@pytest.fixture(scope="module")
def whole(study: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return small.run(study, tmp_path_factory.mktemp("whole") / "store")


def plan_of(outcome: Outcome) -> Plan:
    return outcome.plan


def store_of(outcome: Outcome) -> Store:
    return Store(outcome.report.parents[2])


def row_of(outcome: Outcome, **facts: Any) -> Subnetwork:
    found = [t for t in plan_of(outcome).rows if all(getattr(t, k) == v for k, v in facts.items())]
    assert len(found) == 1, (facts, len(found))
    return found[0]


def value(outcome: Outcome, row: Subnetwork) -> float:
    scores = outcome.tables["scores"]
    keys = ("task", "tuning", "way", "prune", "target", "ticket", "draw", "state", "epochs", "seed")
    mine = scores[(scores["dataset"] == "validation") & np.logical_and.reduce([scores[k] == getattr(row, k) for k in keys])]
    assert len(mine) == 1
    return float(mine["value"].iloc[0])


def tuned(outcome: Outcome, task: str, seed: int) -> Model:
    job = row_of(outcome, task=task, tuning=seed, way="full").predictions["validation"]
    entry = store_of(outcome).get(*job.inputs["fine_tune"])
    return load(str(entry.path("step-12")), tokenizer=str(entry.path("tokenizer")))


def logits_of(model: Model, outcome: Outcome, task: str) -> np.ndarray:
    """One example at a time: no batches, no slim parameters."""
    examples = encode(plan_of(outcome).tasks[task].splits["validation"], model.tokenizer, model.max_length)
    with torch.no_grad():
        return np.concatenate([model.net(**examples.batch(np.array([i]))).logits.numpy() for i in range(len(examples))])


def metric_of(outcome: Outcome, task: str, logits: np.ndarray) -> float:
    split = plan_of(outcome).tasks[task].splits["validation"]
    if task == "scores":
        return float(pearsonr(logits[:, 0], split.frame["label"].astype(float))[0])
    gold = gold_classes(plan_of(outcome).tasks[task].classes, split)
    if task == "cola":
        return float(matthews_corrcoef(gold, logits.argmax(1)))
    return float((gold == logits.argmax(1)).mean())


def test_everything_is_there(whole: Outcome) -> None:
    assert whole.complete, whole.holes
    wanted = {"scores", "tickets", "sizes", "rounds", "importance", "survivors", "stability", "stability_pairs", "overlaps"}
    wanted |= {"ways", "patterns", "pattern_shares", "pattern_quality", "heterogeneity", "holes"}
    assert wanted <= set(whole.tables)
    titles = [job.title for job in whole.plan.jobs.values()]
    assert len(titles) == len(set(titles))
    page = (whole.report / "report.html").read_text(encoding="utf-8")
    assert len(page) < 5e6
    rows = len(plan_of(whole).rows)
    assert len(whole.tables["scores"].query("dataset == 'validation' and way != 'majority'")) == rows


def test_super_survivors_are_judged_with_the_stand_in_of_the_ticket(study: Path) -> None:
    plan = make_plan(small.spec_of(study, "prune.importance=[{threshold: 0.8, ablate: mean}]"), study.parent)
    mine = [row for row in plan.rows if row.name == "super-good"]
    assert mine
    assert {row.stand_in for row in mine} == {"mean"}


def test_patterns_of_super_survivors_are_those_of_models_pruned_to_them(whole: Outcome) -> None:
    """In the first layer a head sees the same embeddings, pruned or not; by hand, one map of a later layer."""
    table = whole.tables["patterns"]
    key = ["task", "state", "tuning", "attention", "layer", "head", "type"]
    alone, rest = (table[table["pruned"] == pruned].set_index(key)["share"] for pruned in (True, False))
    assert set(alone.index) == set(rest.index)
    first = alone.index.get_level_values("layer") == 0
    assert alone[first].to_dict() == pytest.approx(rest[alone.index[first]].to_dict())
    masks = [row_of(whole, task="pairs", tuning=seed, **UNITS, ticket="good", state="pruned") for seed in (1, 2)]
    kept = reduce(and_, (read_masks(store_of(whole).get(r.masks.kind, r.masks.key))[r.place] for r in masks if r.masks))
    summary = whole.tables["pattern_shares"].query("task == 'pairs' and heads == 'super-survivors' and state == 'fine-tuned'")
    inside = [(layer, head) for layer, head in zip(*np.nonzero(kept.heads), strict=True)]
    mine = alone.reset_index().query("task == 'pairs' and state == 'fine-tuned'")
    mine = mine[[pair in inside for pair in zip(mine["layer"], mine["head"], strict=True)]]
    means = mine.groupby(["attention", "type"])["share"].mean()
    assert summary.set_index(["attention", "type"])["mean"].to_dict() == pytest.approx(means.to_dict())
    model, split = tuned(whole, "pairs", 1), plan_of(whole).tasks["pairs"].splits["validation"]
    chosen = drawn(split.frame, 6, 0)
    words = split_words(model, split, chosen)
    store = store_of(whole)
    raw, normed = (
        Classifier.load(store.get(j.kind, j.key).folder) for j in plan_of(whole).parts["patterns"].classifiers.values()
    )
    with gated(model, kept, "zero"):
        shares = pattern_shares(model, raw, normed, words).set_index(key[3:])["share"]
    own = alone.reset_index().query("task == 'pairs' and tuning == 1").set_index(key[3:])["share"]
    assert own.to_dict() == pytest.approx(shares.to_dict())


@pytest.mark.parametrize("task", ["pairs", "cola", "scores"])
def test_full_models_by_their_metric(whole: Outcome, task: str) -> None:
    model = tuned(whole, task, 1)
    expected = metric_of(whole, task, logits_of(model, whole, task))
    assert value(whole, row_of(whole, task=task, tuning=1, way="full")) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("ticket", ["good", "random", "bad"])
def test_pruned_tickets_are_the_model_with_units_at_zero(whole: Outcome, ticket: str) -> None:
    row = row_of(whole, task="scores", tuning=2, **UNITS, ticket=ticket, draw=0, state="pruned")
    assert row.masks is not None
    mask = read_masks(store_of(whole).get(row.masks.kind, row.masks.key))[row.place]
    model = tuned(whole, "scores", 2)
    with gated(model, mask, "zero"):
        expected = metric_of(whole, "scores", logits_of(model, whole, "scores"))
    assert value(whole, row) == pytest.approx(expected, abs=1e-4, nan_ok=True)


def test_pruned_weights_are_the_model_with_weights_at_zero(whole: Outcome) -> None:
    row = row_of(whole, task="scores", tuning=1, way="magnitude", ticket="bad", state="pruned", target=0.0)
    assert row.masks is not None
    mask = read_weights(store_of(whole).get(row.masks.kind, row.masks.key))
    model = tuned(whole, "scores", 1)
    with torch.no_grad():
        for name, weight in encoder_weights(model).items():
            weight *= torch.from_numpy(mask.kept(name))
    assert value(whole, row) == pytest.approx(metric_of(whole, "scores", logits_of(model, whole, "scores")), abs=1e-4)


def test_pruned_weights_stand_beside_searches_on_the_same_texts(whole: Outcome) -> None:
    row = row_of(whole, task="pairs", tuning=2, way="magnitude", target=0.4)
    assert row.masks is not None
    mask, model = read_weights(store_of(whole).get(row.masks.kind, row.masks.key)), tuned(whole, "pairs", 2)
    plan = plan_of(whole).models["pairs", 2]
    sampled = read_reference(store_of(whole).get("reference", plan.reference(12).key))[0]
    held = sampled[held_out(len(sampled))[1]]
    examples = encode(plan.task.splits["train"], model.tokenizer, model.max_length).take(held)

    @torch.no_grad()
    def logits() -> torch.Tensor:
        one_by_one = [model.net(**examples.batch(np.array([i]))).logits for i in range(len(held))]
        return torch.cat(one_by_one).double().log_softmax(-1)

    full = logits()
    with torch.no_grad():
        for name, weight in encoder_weights(model).items():
            weight *= torch.from_numpy(mask.kept(name))
    want = float((full.exp() * (full - logits())).sum(-1).mean())
    table = whole.tables["standing"].query("task == 'pairs' and tuning == 2").set_index("subnetwork")
    assert table.loc[row.name, "held_kl"] == pytest.approx(want, rel=1e-3)
    assert "scores" not in set(whole.tables["standing"]["task"])  # no searches where answers are numbers


def test_retraining_is_training_the_model_without_the_units(whole: Outcome, study: Path, tmp_path: Path) -> None:
    """From the pretrained weights, with the seed's own classifier and order; closed units by gates, not by smaller matrices."""
    row = row_of(whole, task="scores", tuning=1, **UNITS, ticket="bad", state="retrained", epochs=0.0)
    assert row.masks is not None
    mask = read_masks(store_of(whole).get(row.masks.kind, row.masks.key))[row.place]
    assert 0 < len(mask) < mask.vector.size
    model = load(str(study.parent / "model"), ["score"], seed=1, new_head=True)
    train = plan_of(whole).tasks["scores"].splits["train"]
    settings = FineTune(steps=12, batch=16, learning_rate=1e-3, seed=1)
    with gated(model, mask, "zero"):
        fine_tune(model, encode(train, model.tokenizer, model.max_length), train.gold, settings, tmp_path)
        expected = metric_of(whole, "scores", logits_of(model, whole, "scores"))
    assert value(whole, row) == pytest.approx(expected, abs=1e-3)


def test_tickets_have_exactly_equal_sizes(whole: Outcome) -> None:
    sizes = whole.tables["sizes"].query("target == 0 and prune in ('both', 'weights') and way != 'full'")
    by = ["task", "tuning", "way"]
    for column in ("heads", "mlps", "weights"):
        assert (sizes.groupby(by)[column].nunique() <= 1).all()
    good = sizes[sizes["ticket"] == "good"]
    assert (good["in_good"].dropna() == 1).all()
    bad = sizes.query("ticket == 'bad' and way == 'importance'")
    assert (bad["heads"] > 0).any()
    for _, row in bad[bad["heads"] > 0].iterrows():  # 2 layers of 4 heads, 2 MLPs
        assert row["heads_in_good"] * row["heads"] == pytest.approx(max(0, 2 * row["heads"] - 8))


def test_methods_are_compared_at_the_same_size(whole: Outcome) -> None:
    sizes = whole.tables["sizes"].query("target > 0")
    for _, part in sizes.groupby(["task", "tuning", "target", "seed"]):
        assert part.loc[part["way"] != "magnitude", ["heads", "mlps"]].drop_duplicates().shape == (1, 2)
        assert set(part["way"]) == {"l0", "importance", "magnitude", "random"}
        heads, mlps = part.loc[part["way"] == "l0", ["heads", "mlps"]].iloc[0]
        weights = part.loc[part["way"] == "magnitude", "weights"].iloc[0]
        assert weights == heads * 4 * 32 * 8 + mlps * 2 * 32 * 48
    table = whole.tables["ways"]
    l0 = table.query("way == 'l0' and task == 'pairs' and dataset == 'validation'").iloc[0]
    scores = whole.tables["scores"].query("way == 'l0' and task == 'pairs' and dataset == 'validation'")
    assert l0["value"] == pytest.approx(scores["value"].mean())
    assert set(table["task"]) == {"pairs", "cola"}  # a regression has no right answers to compare
    assert {"all", "swap"} <= set(table.query("dataset == 'cases'")["case"])


def test_the_search_never_sees_the_half_that_is_reported(whole: Outcome, study: Path) -> None:
    splits = whole.plan.splits
    search, report = splits["pairs/search"].frame, splits["pairs/validation"].frame
    assert len(search) == len(report) == 30
    assert abs(search["label"].value_counts() - report["label"].value_counts()).max() <= 1
    dev = pd.read_csv(study.parent / "pairs-dev.csv")
    both = pd.concat([search, report])[["first", "second"]]
    assert sorted(both.itertuples(index=False)) == sorted(dev[["first", "second"]].itertuples(index=False))
    paper = make_plan(small.spec_of(study, "judge=paper"), study.parent)
    assert paper.data["pairs/search"].key == paper.data["pairs/validation"].key
    assert len(paper.splits["pairs/validation"]) == 60
    assert any(job.kind == "retrain" for job in paper.jobs.values())


def test_stability_and_survivors_come_from_the_masks(whole: Outcome) -> None:
    masks = {
        r.tuning: read_masks(store_of(whole).get(r.masks.kind, r.masks.key))[0]
        for r in plan_of(whole).rows
        if (r.task, r.way, r.prune, r.target, r.question) == ("pairs", "importance", "both", 0, "prune") and r.masks
    }
    kept = np.stack([m.heads.ravel() for m in masks.values()])
    row = whole.tables["stability"].query("task == 'pairs' and prune == 'both' and kind == 'head' and target == 0").iloc[0]
    if 0 < kept.mean() < 1:
        assert row["fleiss"] == pytest.approx(fleiss_kappa(aggregate_raters(kept.T.astype(int), n_cat=2)[0]))
    alive = whole.tables["survivors"].query("task == 'pairs' and prune == 'both' and kind == 'head' and target == 0")
    np.testing.assert_allclose(alive.sort_values(["layer", "index"])["mean"], kept.mean(0))
    every = whole.tables["survivors"].query("task == 'all tasks' and prune == 'both' and kind == 'head'")
    assert every["mean"].max() <= 3
    weights = whole.tables["survivors"].query("task == 'pairs' and way == 'magnitude' and target == 0")
    shares = whole.tables["sizes"].query("task == 'pairs' and way == 'magnitude' and target == 0")
    assert weights["mean"].min() <= shares["weights"].mean() / 14336 <= weights["mean"].max()  # matrices of the tiny model


def test_nothing_is_done_twice_and_a_new_line_adds_its_own_jobs(whole: Outcome, study: Path) -> None:
    again = small.run(study, store_of(whole).root)
    assert again.computed == 0
    assert again.report == whole.report
    longer = make_plan(small.spec_of(study, "tickets.longer=[3, 4]"), study.parent)
    new = longer.jobs.keys() - whole.plan.jobs.keys()
    assert len(new) == 3 * 2  # three tasks, two seeds
    assert {job.kind for job in longer.jobs.values() if job.key in new} == {"retrain"}
    wider = make_plan(small.spec_of(study, "tickets.random=2"), study.parent)
    new = wider.jobs.keys() - whole.plan.jobs.keys()
    assert Counter(job.kind for job in wider.jobs.values() if job.key in new) == {"tickets": 12, "retrain": 12, "predict": 16}
    stricter = make_plan(small.spec_of(study, f"prune.importance={STRICTER}"), study.parent)
    new = stricter.jobs.keys() - whole.plan.jobs.keys()
    assert not [job.title for job in stricter.jobs.values() if job.key in new and "like L0" in job.title]


def test_tasks_that_change_places_have_other_tables(whole: Outcome, study: Path) -> None:
    spec = small.spec_of(study)
    tasks = {**spec.tasks, "more": spec.tasks["pairs"].model_copy(update={"challenge": {}})}
    one, other = (
        make_plan(spec.model_copy(update={"tasks": {**tasks, **change}}), study.parent)
        for change in ({}, {"cola": tasks["more"], "more": tasks["cola"]})
    )
    assert asked(one, {}) != asked(other, {})


def test_the_study_in_the_report_can_be_run(whole: Outcome, study: Path) -> None:
    shown = yaml.safe_dump(provenance(whole.plan, store_of(whole))["study"])
    assert parse_study(shown, "report") == read_study(study)


def test_a_lottery_from_a_notebook(whole: Outcome, study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(study.parent)
    assert run(read_study(study), store_of(whole).root).computed == 0


def test_the_cost_is_estimated(whole: Outcome) -> None:
    cost = estimate(whole.plan, list(whole.plan.jobs.values()), 2)
    assert cost.seconds > 0
    assert "scores/train" in cost.forward
    done = estimate(whole.plan, [], 2)
    assert done.seconds == done.report  # to draw it again


def test_what_goes_wrong_is_said_and_the_rest_goes_on(study: Path, tmp_path: Path) -> None:
    """A threshold that everything reaches prunes the whole model away; one that nothing reaches removes nothing."""
    small_one = ["tickets=null", "patterns=null", "fine_tune.seeds=[1]", "fine_tune.steps=4"]
    free = ["prune={importance: {threshold: 0.01}, magnitude: {threshold: 0.01, most_rounds: 2}}"]
    lost = small.run(study, tmp_path / "a", *small_one, *free)
    assert lost.complete
    said = "\n".join(lost_notes(lost))
    assert "pairs: importance pruning (both): the whole model was pruned away" in said
    found = lost.tables["sizes"].query("task == 'pairs' and way == 'importance'").iloc[0]
    assert (found["heads"], found["mlps"]) == (0, 0)
    assert "pairs: magnitude pruning: all 2 rounds passed" in said
    assert "m-pruning never fell below its threshold" in small.said(lost)
    alone = lost.tables["scores"].query("task == 'cola' and way == 'majority'")
    assert alone["value"].tolist() == [0.0]
    assert alone["note"].str.contains("one class predicted").all()
    constant = lost.tables["scores"].query("task == 'scores' and way == 'majority'")
    assert constant["value"].isna().all()
    assert constant["note"].iloc[0]


def lost_notes(outcome: Outcome) -> list[str]:
    store = store_of(outcome)
    return [n for job in outcome.plan.jobs.values() for n in store.get(job.kind, job.key).meta.get("notes", [])]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("fine_tune.seed=3", "write seeds: .3."),
        ("fine_tune.seeds=[1, 1]", "stands twice"),
        ("prune.importance={treshold: 0.5}", "Did you mean 'threshold'"),
        ("prune.importance={threshold: 1.5}", "prune.importance.threshold"),
        ("prune.l0.path=true", "set l0.path: false"),
        ("tasks.cola.glu=x", "Did you mean 'glue'"),
        ("model.labels=[a, b]", "labels belong to the tasks"),
    ],
)
def test_mistakes_in_a_lottery(study: Path, change: str, message: str) -> None:
    with pytest.raises(StudyError, match=message):
        read_study(study, [change])


def test_what_planning_refuses(study: Path) -> None:
    one_label = [f"tasks.pairs.{part}.only={{label: entailment}}" for part in ("train", "validation")]
    for changes, message in (
        (["tasks.pairs.train=null"], "fine_tune needs tasks.pairs.train"),
        (["patterns.annotated=nowhere"], "is no folder"),
        (["tasks.pairs.train.only={label: entailment}"], "tasks.pairs.validation: .* examples have the label 'non-entailment'"),
        ([*one_label, "tasks.pairs.challenge={}"], "tasks.pairs.train: every example is 'entailment'"),
    ):
        with pytest.raises((InputError, StudyError), match=message):
            make_plan(small.spec_of(study, *changes), study.parent)


def test_masks_of_one_seed_and_task_still_make_a_report(study: Path, tmp_path: Path) -> None:
    changes = [
        "fine_tune.seeds=[1]",
        "tickets={random: 1, retrain: false}",
        "patterns=null",
        "prune={importance: {threshold: 0.8}}",
    ]
    spec = small.spec_of(study, *changes)
    one = spec.model_copy(update={"tasks": {"cola": spec.tasks["cola"]}})
    done = run_study(one, study.parent, Store(tmp_path / "store"), Inline())
    assert done.complete
    assert "overlaps" not in done.tables
    assert "stability" not in done.tables


# the outcome in a notebook


def test_models_and_masks_come_back_from_the_store(whole: Outcome) -> None:
    """Of a mask of units with each stand-in, of weights, and of the full model: run again, they say what was stored."""
    results = Results(plan_of(whole), store_of(whole), whole.holes)
    rows = [r for r in results.rows if r.model == ("pairs", 2) and r.state == "pruned"]
    kinds = {(r.way, r.stand_in) for r in rows}
    assert {("full", None), ("l0", "mean"), ("importance", "zero"), ("magnitude", None)} <= kinds
    for way, stand_in in sorted(kinds, key=str):
        row = next(r for r in rows if (r.way, r.stand_in) == (way, stand_in))
        split = plan_of(whole).tasks["pairs"].splits["cases"]
        with whole.gated(row.name, task="pairs", tuning=2) as model:
            found = cw.predict(model, [], split).full
        np.testing.assert_allclose(found, results.logits(row, "cases"), atol=1e-5)
    row = next(r for r in rows if r.way == "l0")
    model, mask = (read(row.name, "pairs", 2) for read in (whole.model, whole.mask))
    again = cw.predict(model, mask, split)  # with the means of the study
    np.testing.assert_allclose(again[0], results.logits(row, "cases"), atol=1e-5)
    with torch.inference_mode():
        batch = cw.encode(split, model.tokenizer, model.max_length).batch(np.arange(8))
        np.testing.assert_allclose(cw.slim(model, mask)(**batch).logits.numpy(), again[0][:8], atol=1e-5)
    assert whole.model(task="pairs", tuning=1).name == "model, step 12"


def test_examples_of_an_outcome_are_those_of_the_scores(whole: Outcome) -> None:
    table = whole.subnetworks
    one, other = table[(table["task"] == "pairs") & (table["tuning"] == 1) & (table["question"] == "prune")]["subnetwork"].iloc[
        :2
    ]
    every = whole.examples(one, which="all", task="pairs", tuning=1)
    scores = whole.tables["scores"]
    mine = of_cases(scores[(scores["task"] == "pairs") & (scores["tuning"] == 1)])
    for who, answer in ((one, "answer"), ("full", "full")):
        for _, row in mine[mine["subnetwork"] == who].iterrows():
            part = every[(every["dataset"] == row["dataset"]) & ((row["case"] == "all") | (every["case"] == row["case"]))]
            assert len(part) == row["n"]
            if row["metric"] == "accuracy":
                assert (part[answer] == part["gold"]).mean() == pytest.approx(row["value"])
    lost = whole.examples(one, which="lost", dataset="cases", task="pairs", tuning=1)
    assert len(lost) == len(every[(every["which"] == "lost") & (every["dataset"] == "cases")])
    frame = plan_of(whole).tasks["pairs"].splits["cases"].frame
    for _, row in lost.iterrows():
        assert row["first"] == frame["first"][row["example"]]
    pair = whole.examples(one, other=other, task="pairs", tuning=1)
    assert (pair["answer"] != pair["other"]).all()
    swap = whole.examples(one, case="swap", which="all", task="pairs", tuning=1)
    assert set(swap["case"]) == {"swap"}
    assert "report.html" in whole._repr_html_()


def test_what_an_outcome_cannot_give_is_told(whole: Outcome) -> None:
    name = next(r.name for r in plan_of(whole).rows if r.way == "l0" and r.question == "prune")
    with pytest.raises(InputError, match=r"is a subnetwork of 4 models; say which: .*--task pairs --tuning 1; "):
        whole.model(name)
    with pytest.raises(InputError, match=rf"no subnetwork '{name}x'\. Did you mean '{name}'"):
        whole.mask(f"{name}x")
    retrained = next(r for r in plan_of(whole).rows if r.state == "retrained" and r.model == ("pairs", 1))
    with pytest.raises(InputError, match="was retrained, and such models are judged and not kept"):
        whole.model(retrained.name, "pairs", 1)
    with pytest.raises(InputError, match=r"no dataset 'case'\. Did you mean 'cases'"):
        whole.examples(name, dataset="case", task="pairs", tuning=1)
    with pytest.raises(InputError, match="labels are numbers"):
        whole.examples(next(r.name for r in plan_of(whole).rows if r.model == ("scores", 1)), task="scores", tuning=1)
    holes = {job.key: "failed: no memory" for job in plan_of(whole).rows[-1].jobs}
    part = Outcome(whole.plan, whole.tables, whole.report, whole.store, holes)
    last = plan_of(whole).rows[-1]
    with pytest.raises(InputError, match="has no results: failed: no memory"):
        part.examples(last.name, task=last.task, tuning=last.tuning)
