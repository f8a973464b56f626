"""Models, ways and questions that no paper put together, each against a second source."""

from __future__ import annotations

from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import small
import torch
from safetensors.numpy import save_file
from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa

import corewood as cw
from corewood.analyse.differences import variance_components
from corewood.analyse.generalisation import of_cases
from corewood.errors import InputError
from corewood.model.gates import gated
from corewood.model.mask import Mask
from corewood.prune.l0 import held_out
from corewood.spec import Ablation, Ablations
from corewood.store.store import Store
from corewood.study.compare import compare
from corewood.study.engines import Inline
from corewood.study.entries import read_masks, read_reference
from corewood.study.plan import make_plan
from corewood.study.results import Results
from corewood.study.run import Outcome, run_study
from corewood.study.subnetwork import Subnetwork

SHORT = {"settings": {"steps": 6, "batch": 8}}
TUNED: dict[str, Any] = {
    "fine_tune": {"steps": 20, "batch": 16, "learning_rate": 1e-3, "checkpoints": [0, 10], "seeds": 3},
    "prune": {
        "l0": {"sparsity": [0.4, 0.6], "seeds": 2, **SHORT},
        "importance": {"sparsity": 0.4},
        "random": [{"like": "l0", "draws": 2}, {"like": "importance"}],
        "given": {"path": "masks"},
    },
    "effective_size": {"way": "importance", "sparsity": [0.3, 0.6], "checkpoints": [10, 20]},
    "ablations": {"singles": False, "pairs": True, "examples": 40},
    "attention": {"examples": 20, "maps": 1},
    "tickets": {"of": "l0", "random": 1},
    "sample": 60,
}
HEADS = np.array([[1, 0, 1, 1], [1, 1, 0, 1]])  # of the tiny model: 2 layers of 4 heads
TASKS: dict[str, Any] = {
    "fine_tune": {"steps": 12, "batch": 16, "learning_rate": 1e-3, "seeds": [4, 5]},
    "prune": {"importance": {"sparsity": 0.4}, "magnitude": {"sparsity": 0.4}, "random": {"like": "magnitude"}},
    "attention": {"examples": 12, "maps": 1},
    "sample": 60,
}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("combinations")
    (folder / "masks").mkdir()
    np.save(folder / "masks" / "one.npy", HEADS)
    save_file({"heads": HEADS[::-1].copy(), "mlps": np.array([1, 1])}, folder / "masks" / "two.safetensors")
    return small.write_study(folder, **TUNED)


@pytest.fixture(scope="module")
def whole(study: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return small.run(study, tmp_path_factory.mktemp("whole") / "store")


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Two tasks with challenge sets in one report."""
    folder = tmp_path_factory.mktemp("tasks")
    path = small.write_study(folder, **TASKS)
    one = small.spec_of(path).model_dump(mode="json", exclude_defaults=True)["task"]
    other = {**one, "train": {**one["train"][0], "limit": 150}}
    path = small.write_study(folder, **TASKS, task=None, tasks={"one": one, "other": other})
    return small.run(path, folder / "store")


def results_of(outcome: Outcome) -> Results:
    return Results(outcome.plan, Store(outcome.report.parents[2]), outcome.holes)


def rows(outcome: Outcome, **facts: Any) -> list[Subnetwork]:
    return [r for r in outcome.plan.rows if all(getattr(r, key) == value for key, value in facts.items())]


def test_all_is_there_and_a_reader_chooses_the_model(whole: Outcome) -> None:
    assert whole.complete, small.holes(whole)
    page = (whole.report / "report.html").read_text(encoding="utf-8")
    for label in ("seed 0, l0", "seed 2, given"):
        assert f"<option>{label}</option>" in page
    assert 'id="spread-seed-1-l0"' in page
    assert "Of the variance of accuracy on a case, fine-tuning holds" in small.said(whole)
    assert "None of the 3 models has learnt its task" in page


def test_spread_between_fine_tunings_beside_spread_between_searches(whole: Outcome) -> None:
    scores = of_cases(whole.tables["scores"])
    mine = scores.query("way == 'l0' and question == 'prune' and target == 0.6 and dataset == 'cases' and case == 'all'")
    values = mine.pivot(index="tuning", columns="seed", values="value").to_numpy()  # (fine-tuning, search)
    within = values.var(1, ddof=1).mean()
    between = max(0.0, values.mean(1).var(ddof=1) - within / values.shape[1])
    row = whole.tables["tunings"].query("way == 'l0' and target == 0.6 and dataset == 'cases' and case == 'all'").iloc[0]
    assert (row["tunings"], row["subnetworks"]) == (3, 6)
    assert row["within"] == pytest.approx(within**0.5)
    assert row["between"] == pytest.approx(between**0.5, abs=1e-12)
    full = scores.query("way == 'full' and checkpoint == 20 and dataset == 'cases' and case == 'all'")["value"]
    assert row["full_std"] == pytest.approx(full.std(ddof=1))


def test_variance_components_find_what_was_put_in() -> None:
    rng = np.random.default_rng(0)
    groups = [rng.normal(mean, 0.5, size) for mean, size in zip(rng.normal(0, 2, 400), rng.integers(2, 9, 400), strict=True)]
    found = variance_components(groups)
    assert found["between"] == pytest.approx(2, rel=0.1)
    assert found["within"] == pytest.approx(0.5, rel=0.1)
    assert found["share"] == pytest.approx(4 / 4.25, rel=0.05)
    assert np.isnan(variance_components([np.array([1.0]), np.array([2.0])])["share"])


def test_the_core_within_and_across_fine_tunings(whole: Outcome) -> None:
    results = results_of(whole)
    masks = {t: [results.mask(r) for r in rows(whole, way="l0", question="prune", tuning=t)] for t in (0, 1, 2)}
    table = whole.tables["core_tunings"].query("way == 'l0'").set_index(["tuning", "definition"])["heads"]
    for tuning, mine in masks.items():
        assert table[tuning, "all"] == reduce(and_, mine).heads.sum()
    every = reduce(and_, [mask for mine in masks.values() for mask in mine])
    assert table[-1, "all of all fine-tunings"] == table[-1, "in the core of every fine-tuning"] == every.heads.sum()


def test_every_fine_tuning_has_its_checkpoints(whole: Outcome) -> None:
    steps = whole.tables["dynamics"].groupby("tuning")["checkpoint"].unique().map(list).to_dict()
    assert steps == {seed: [0, 10, 20] for seed in (0, 1, 2)}


def test_tickets_of_l0_masks(whole: Outcome) -> None:
    sizes = whole.tables["sizes"].query("way == 'l0' and question in ('prune', 'tickets')")
    assert set(sizes["ticket"]) == {"good", "random", "bad"}
    assert (sizes.groupby(["tuning", "target", "seed"])[["heads", "mlps"]].nunique() == 1).all(axis=None)
    table = whole.tables["tickets"].query("way == 'l0' and target == 0.6")
    assert {(t, s) for t, s in zip(table["ticket"], table["state"], strict=True)} == {
        (ticket, state) for ticket in ("good", "random", "bad") for state in ("pruned", "retrained")
    }
    assert set(table["seeds"]) == {6}
    page = (whole.report / "report.html").read_text(encoding="utf-8")
    assert "L0 to 60 %" in page


def test_effective_size_by_importance(whole: Outcome) -> None:
    scores = whole.tables["scores"].query("tuning == 1 and checkpoint == 10 and domain == 'in-domain'")
    full = scores.query("way == 'full'")["value"].iloc[0]
    grid = scores.query("question == 'effective_size'").set_index("target")["value"]
    assert sorted(grid.index) == [0.3, 0.6]
    size = 1 - max([target for target, value in grid.items() if abs(full - value) <= 0.03 + 1e-9], default=0.0)
    table = whole.tables["effective_size"]
    row = table[(table["tuning"] == 1) & (table["checkpoint"] == 10) & (table["set"] == "in domain") & table["chosen"]].iloc[0]
    assert (row["way"], row["effective_size"]) == ("importance", pytest.approx(size))


def test_kappa_and_pairs_over_l0_seeds(whole: Outcome) -> None:
    results = results_of(whole)
    mine = rows(whole, way="l0", question="prune", tuning=2, target=0.6)
    kept = np.stack([results.mask(r).heads.ravel() for r in mine])
    facts = "way == 'l0' and target == 0.6 and kind == 'head' and over == 'searches' and tuning == 2"
    row = whole.tables["stability"].query(facts).iloc[0]
    assert row["fleiss"] == pytest.approx(fleiss_kappa(aggregate_raters(kept.T.astype(int), n_cat=2)[0]))
    pair = whole.tables["stability_pairs"].query(facts).iloc[0]
    assert pair["jaccard"] == pytest.approx((kept[0] & kept[1]).sum() / (kept[0] | kept[1]).sum())
    assert len(whole.tables["stability"].query("way == 'l0' and over == 'fine-tunings'")) == 2 * 2  # two sizes, two kinds


def test_given_masks_are_judged_compared_and_ablated_like_others(whole: Outcome, study: Path) -> None:
    read = cw.read_masks(study.parent / "masks")
    assert set(read) == {"one", "two"}
    (row,) = rows(whole, name="given-one", tuning=1)
    results = results_of(whole)
    assert results.mask(row) == Mask(HEADS, np.ones(2))
    model = results.plan.models["task", 1]
    assert row.target == pytest.approx(1 - (HEADS.sum() + 2) / 10)
    entry = results.entry(next(iter(row.predictions.values())))
    assert entry.meta["params"]["ablate"] == "mean"
    assert model.last == 20
    for metric in ("accuracy", "balanced", "d-prime"):
        here = f"way == 'given' and tuning == 1 and dataset == 'cases' and case == 'all' and metric == '{metric}'"
        spread, values = whole.tables["spread"].query(here).iloc[0], whole.tables["scores"].query(here)["value"]
        assert len(values) == 2
        assert (spread["min"], spread["max"]) == (values.min(), values.max())


def test_given_masks_of_another_model_are_refused(study: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "wrong.npy", np.ones((3, 4)))
    with pytest.raises(InputError, match="is a mask of 3 x 4 heads, the model has 2 x 4"):
        make_plan(small.spec_of(study, f"prune.given.path={tmp_path / 'wrong.npy'}"), study.parent)


@pytest.mark.parametrize("taken", ["search", "report"])
def test_names_of_sets_that_are_taken_are_refused(study: Path, taken: str) -> None:
    cases = "{path: cases.parquet, text: [first, second], label: label, case: case}"
    with pytest.raises(InputError, match=rf"task.challenge: a set cannot be called '{taken}'"):
        make_plan(small.spec_of(study, f"task.challenge.{taken}={cases}"), study.parent)


def test_random_masks_beside_any_way(whole: Outcome, tasks: Outcome) -> None:
    sizes = whole.tables["sizes"]
    drawn = sizes.query("way == 'random' and target == 0.6")
    like = sizes.query("way == 'l0' and question == 'prune' and target == 0.6").set_index(["tuning", "seed"])
    assert len(drawn) == 3 * 2 * 2  # fine-tunings, seeds, draws
    for _, row in drawn.iterrows():
        assert row["heads"] == like.loc[(row["tuning"], row["seed"]), "heads"]
    weights = tasks.tables["sizes"].query("prune == 'weights'").groupby(["task", "tuning"])["weights"]
    assert (weights.nunique() == 1).all()
    assert set(tasks.tables["ways"]["way"]) == {"importance", "magnitude", "random", "full"}
    ways = whole.tables["ways"].query("target == 0.4 and dataset == 'cases' and case == 'all'").set_index("way")
    assert set(ways.index) == {"l0", "importance", "random", "random like importance", "full"}
    scores = of_cases(whole.tables["scores"]).query("target == 0.4 and dataset == 'cases' and case == 'all'")
    for way, names in (("random", r"random-40-s\d-\d"), ("random like importance", r"random-like-importance.*")):
        own = scores[scores["subnetwork"].str.fullmatch(names)]  # masks of two sizes are no one way
        assert ways.loc[way, "value"] == pytest.approx(own.groupby("tuning")["value"].mean().mean())


def test_ways_beside_each_other_come_by_themselves(whole: Outcome) -> None:
    table = whole.tables["ways"].query("target == 0.4 and dataset == 'cases' and case == 'all'").set_index("way")
    scores = of_cases(whole.tables["scores"])
    scores = scores.query("question == 'prune' and target == 0.4 and dataset == 'cases' and case == 'all'")
    for way in ("l0", "importance"):
        assert table.loc[way, "value"] == pytest.approx(scores[scores["way"] == way].groupby("tuning")["value"].mean().mean())


def kl_one_by_one(outcome: Outcome, tuning: int, mask: Mask, ablate: Ablation = "mean", texts: str = "held out") -> list[float]:
    """By a plain loop, one text at a time: the full model with its gates open, then with those of the mask."""
    results = results_of(outcome)
    model_plan = outcome.plan.models["task", tuning]
    tuned = results.entry(model_plan.tuned["fine_tune"])
    model = cw.load(str(tuned.path("step-20")), tokenizer=str(tuned.path("tokenizer")))
    chosen, shared = read_reference(results.entry(model_plan.reference(20)))
    splits = model_plan.task.splits
    held = splits["train"].frame.iloc[chosen[held_out(len(chosen))[1]]]
    frame = held if texts == "held out" else splits[texts].frame
    values = []
    with torch.inference_mode():
        for one, two in zip(frame["first"], frame["second"], strict=True):
            words = model.tokenizer(one, two, return_tensors="pt")
            full = model.net(**words).logits[0].double().log_softmax(-1)
            with gated(model, mask, ablate, shared.means):
                pruned = model.net(**words).logits[0].double().log_softmax(-1)
            values.append(float((full.exp() * (full - pruned)).sum()))
    return values


def held_out_kl(outcome: Outcome, tuning: int, mask: Mask, ablate: Ablation = "mean") -> float:
    values = kl_one_by_one(outcome, tuning, mask, ablate)
    assert len(values) == 15  # a quarter of the sample
    return float(np.mean(values))


def test_searches_are_compared_on_all_texts_that_they_have_not_seen(whole: Outcome) -> None:
    (row,) = rows(whole, name="l0-60-s1", tuning=1)
    mask = results_of(whole).mask(row)
    unseen = [*kl_one_by_one(whole, 1, mask), *kl_one_by_one(whole, 1, mask, texts="validation")]
    sizes = whole.tables["sizes"].query("tuning == 1 and way == 'l0' and question == 'prune'").set_index("subnetwork")
    assert sizes.loc[row.name, "unseen_kl"] == pytest.approx(np.mean(unseen), rel=1e-3)
    assert sizes.loc[row.name, "unseen_kl"] != pytest.approx(sizes.loc[row.name, "held_kl"], rel=1e-2)
    for _, alike in sizes.groupby("target"):
        best = alike["unseen_kl"].min()
        assert alike["comparable"].tolist() == [kl <= max(1.5 * best, best + 0.005) for kl in alike["unseen_kl"]]


def test_searches_stand_beside_random_masks_of_their_exact_sizes(whole: Outcome) -> None:
    results, table = results_of(whole), whole.tables["standing"].set_index(["tuning", "subnetwork"])
    assert whole.tables["standing"]["way"].value_counts().to_dict() == {"random": 24, "l0": 12, "importance": 3}
    searched = table[table["way"] == "l0"].reset_index().set_index(["tuning", "target", "seed"])
    for _, row in table[table["way"] == "random"].reset_index().iterrows():
        own = searched.loc[(row["tuning"], row["target"], row["seed"])]
        assert (row["heads"], row["mlps"]) == (own["heads"], own["mlps"])
    told = whole.tables["sizes"].query("way == 'l0' and question == 'prune' and tuning == 1").set_index("subnetwork")
    assert table.loc[1][lambda t: t["way"] == "l0"]["held_kl"].to_dict() == told["held_kl"].to_dict()
    for name in ("l0-60-s1", "random-60-s1-0", "random-60-s1-1"):  # those of prune.random are the same masks
        (row,) = rows(whole, name=name, tuning=1)
        assert table.loc[(1, name), "held_kl"] == pytest.approx(held_out_kl(whole, 1, results.mask(row)), rel=1e-3)


def test_other_ways_stand_beside_searches_of_their_target(whole: Outcome) -> None:
    (row,) = rows(whole, way="importance", question="prune", tuning=0)
    found = whole.tables["standing"].query(f"tuning == 0 and subnetwork == '{row.name}'").iloc[0]
    assert (found["target"], row.stand_in) == (0.4, "zero")  # a mask with its own stand-in, as in its scores
    want = held_out_kl(whole, 0, results_of(whole).mask(row), "zero")
    assert found["held_kl"] == pytest.approx(want, rel=1e-3)
    assert "given" not in set(whole.tables["standing"]["way"])  # of other sizes


def test_more_seeds_leave_what_stands_beside_searches_as_it_is(study: Path, whole: Outcome) -> None:
    more = make_plan(small.spec_of(study, "prune.l0.seeds=3"), study.parent)
    keys = [{job.key for _, job in plan.parts["standing"]} for plan in (whole.plan, more)]
    assert keys[0] < keys[1]
    assert len(keys[1] - keys[0]) == 3 * 2  # fine-tunings x sizes


def test_two_tasks_with_challenge_sets_and_the_attention_of_super_survivors(tasks: Outcome) -> None:
    assert tasks.complete, small.holes(tasks)
    scores = tasks.tables["scores"]
    assert {(t, d) for t, d in zip(scores["task"], scores["dataset"], strict=True)} == {
        (task, dataset) for task in ("one", "other") for dataset in ("validation", "cases")
    }
    results = results_of(tasks)
    alive = reduce(and_, [results.mask(r) for r in rows(tasks, task="other", way="importance")])
    marked = tasks.tables["attention"].query("task == 'other' and tuning == 5 and core")["unit"].unique()
    assert sorted(marked) == sorted(name for name in alive.names if ".H" in name)
    assert "overlaps" in tasks.tables


def test_any_two_studies_can_be_compared(whole: Outcome, tasks: Outcome, study: Path) -> None:
    store = Store(whole.report.parents[2])
    found = compare(whole.plan.spec, whole.plan.spec, (study.parent, study.parent), store)
    assert (found.scores["difference"] == 0).all()
    same = found.masks.query("way == 'given'").iloc[0]
    assert same["jaccard"] < 1  # every mask of the one with every mask of the other
    assert same["core_one"] == same["core_other"] == same["core_shared"]
    scores = of_cases(whole.tables["scores"])
    full = scores.query("way == 'full' and checkpoint == 20 and dataset == 'cases' and case == 'all'")["value"]
    assert found.scores.query("dataset == 'cases' and case == 'all'")["one"].iloc[0] == pytest.approx(full.mean())
    assert isinstance(found.masks, pd.DataFrame)


def test_masks_of_two_studies_are_compared_whatever_their_sizes(study: Path, whole: Outcome) -> None:
    """Another sparsity has no size in common; cores, frequencies and what heads attend to still stand beside each other."""
    changes = ["prune={l0: {sparsity: [0.3, 0.5], seeds: 2, settings: {steps: 6, batch: 8}}}", "fine_tune.seeds=[0]"]
    changes += ["tickets=null", "effective_size=null", "ablations=null"]
    store, other = Store(whole.report.parents[2]), small.spec_of(study, *changes)
    beside = small.run(study, store.root, *changes)
    found = compare(whole.plan.spec, other, (study.parent, study.parent), store)
    (row,) = found.masks.to_dict("records")
    assert np.isnan(row["target"])
    masks = [[r.masks for r in outcome.plan.rows if r.way == "l0" and r.question == "prune"] for outcome in (whole, beside)]
    heads = [np.array([read_masks(store.get(j.kind, j.key))[0].heads.ravel() for j in jobs if j]) for jobs in masks]
    often = [kept.mean(0) for kept in heads]
    assert row["rho"] == pytest.approx(pd.Series(often[0]).rank().corr(pd.Series(often[1]).rank()))
    assert (row["core_one"], row["core_other"]) == tuple(int(kept.all(0).sum()) for kept in heads)
    assert row["core_shared"] == int((heads[0].all(0) & heads[1].all(0)).sum())
    assert found.heads["share_one"].tolist() == pytest.approx(often[0].tolist())
    assert found.heads["core_other"].tolist() == heads[1].all(0).tolist()
    assert set(found.heads["does_one"]) <= set(whole.tables["attention"]["does"])


def test_a_core_over_fine_tunings_is_removed_from_each(tasks: Outcome) -> None:
    """Importance gives one mask of each model: the core is what those of a task share."""
    wanted = Ablations(singles=False, sets=("core", "top 2"), examples=12)
    spec = tasks.plan.spec.model_copy(update={"ablations": wanted, "attention": None})
    found = run_study(spec, tasks.plan.base, Store(tasks.report.parents[2]), Inline())
    assert found.complete, small.holes(found)
    table, results = found.tables["ablation"], results_of(found)
    for (task, _), part in table.groupby(["task", "tuning"]):
        masks = [results.mask(row) for row in rows(found, task=task, way="importance", question="prune")]
        assert len(masks) == 2
        shared = [name for name in (masks[0] & masks[1]).names if ".H" in name]
        assert len(shared) > 2
        assert set(part.loc[part["set"].str.contains("core"), "units"]) == {" + ".join(shared)}
        assert set(part.loc[part["kind"] == "head", "units"]) == set(shared)
        assert len(set(part.loc[part["set"].str.contains("top 2"), "units"])) == 1
    assert table.groupby(["task", "tuning"]).ngroups == 4
