"""Everything the Heuristic Core reports, from one study file: each table against a second source."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations, product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import small
import tiny
import torch
import yaml
from scipy.stats import hypergeom, spearmanr
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

import corewood as cw
from corewood.analyse.ablation import BEYOND, INSIDE, OUTSIDE
from corewood.analyse.effective import effective_size
from corewood.analyse.generalisation import of_cases
from corewood.data.encode import encode
from corewood.data.labels import fold_classes
from corewood.data.read import drawn
from corewood.errors import InputError
from corewood.evaluate.attention import head_scores, split_words
from corewood.model.gates import gated
from corewood.model.load import Model, load
from corewood.model.reference import no_progress, reference, sample_indices
from corewood.report.models import models_of
from corewood.store.store import Store
from corewood.study import entries
from corewood.study.compare import compare, label_map
from corewood.study.cost import estimate
from corewood.study.job import Work
from corewood.study.plan import make_plan
from corewood.study.results import Results
from corewood.study.run import Outcome


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.write_study(tmp_path_factory.mktemp("study"), **small.EVERYTHING)


@pytest.fixture(scope="module")
def whole(study: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return small.run(study, tmp_path_factory.mktemp("whole") / "store")


def store_of(outcome: Outcome) -> Store:
    return Store(outcome.report.parents[2])


@pytest.fixture(scope="module")
def earlier(study: Path, whole: Outcome) -> Outcome:
    """The same study at earlier checkpoints, too, with sets that it chooses itself."""
    wanted = {**small.EVERYTHING["ablations"], "checkpoints": [0]}
    wanted["sets"] = [*wanted["sets"], "core", "top 3"]
    changes = [f"ablations={yaml.safe_dump(wanted, default_flow_style=True)}", "attention.checkpoints=all"]
    return small.run(study, store_of(whole).root, *changes)


def model_at(outcome: Outcome, step: int) -> tuple[Model, Any]:
    """A checkpoint, and the means of its units on the texts of the sample, computed anew."""
    store, spec = store_of(outcome), outcome.plan.spec
    tuned = store.get(*outcome.plan.rows[0].predictions["validation"].inputs["fine_tune"])
    model = load(str(tuned.path(f"step-{step}")), tokenizer=str(tuned.path("tokenizer")))
    texts = encode(outcome.plan.splits["train"], model.tokenizer, model.max_length)
    return model, reference(model, texts.take(sample_indices(len(texts), spec.sample, spec.seed))).means


def last_model(outcome: Outcome) -> tuple[Model, Any]:
    """The checkpoint that was pruned, and the means of its units."""
    store = store_of(outcome)
    row = next(r for r in outcome.plan.rows if r.question == "prune")
    assert row.masks is not None
    tuned = store.get(*row.masks.inputs["fine_tune"])
    means = entries.read_reference(store.get(*row.masks.inputs["reference"]))[1].means
    return load(str(tuned.path("step-30")), tokenizer=str(tuned.path("tokenizer"))), means


def test_every_table_is_there_and_none_without_being_asked(whole: Outcome, tmp_path: Path) -> None:
    asked = {
        "effective_size",
        "core_over_training",
        "ablation",
        "ablated_values",
        "attention",
        "attention_core",
        "attention_maps",
    }
    assert whole.complete
    assert asked <= set(whole.tables)
    plain = small.run(small.write_study(tmp_path / "plain"), tmp_path / "store")
    assert not asked & set(plain.tables)
    page = (plain.report / "report.html").read_text(encoding="utf-8")
    full = (whole.report / "report.html").read_text(encoding="utf-8")
    parts = ["subnetworks-part", "heads-and-core-part", "training-part", "ablations-part", "attention-part", "searches-part"]
    places = [full.index(f'id="{part}"') for part in parts]
    assert places == sorted(places)
    for part in ("ablations-part", "attention-part"):
        assert f'id="{part}"' not in page
    assert "effective-size" not in page
    assert len(full) < 5e6


def test_ablations_equal_a_loop_over_whole_models(whole: Outcome) -> None:
    model, means = last_model(whole)
    table = whole.tables["ablation"].query("metric == 'accuracy'").set_index(["units", "dataset", "case"])
    assert len(table.loc[(slice(None), "cases", "all"), :].query("kind in ('head', 'mlp')")) == len(model.units) == 10
    split = whole.plan.splits["cases"]
    examples = encode(split, model.tokenizer, model.max_length)
    fold = fold_classes(model.labels, split)

    @torch.inference_mode()
    def right(closed: list[str], inside: np.ndarray) -> np.ndarray:
        with gated(model, model.units.without(*closed), "mean", means):
            logits = [model.net(**examples.batch(np.array([i]))).logits[0].numpy() for i in np.flatnonzero(inside)]
        return np.asarray(fold[np.stack(logits).argmax(-1)] == split.gold[inside])

    used = np.zeros(len(split), bool)
    used[drawn(split.frame, 40, 0)] = True
    case = used & (split.frame["case"] == "if").to_numpy()
    for name, inside in (("all", used), ("if", case)):
        full, one, other = right([], inside), right(["L0.H1"], inside), right(["L1.H2"], inside)
        both = right(["L0.H1", "L1.H2"], inside)
        row = table.loc[("L0.H1 + L1.H2", "cases", name)]
        assert row["n"] == inside.sum() > 1
        assert row["full"] == full.mean()
        assert row["change"] == pytest.approx(both.mean() - full.mean())
        assert row["interaction"] == pytest.approx(both.mean() - one.mean() - other.mean() + full.mean())
        assert table.loc[("L0.H1", "cases", name), "value"] == pytest.approx(one.mean())


def test_skills_have_rows_of_their_own_in_every_table(whole: Outcome) -> None:
    """A case and its counterpart are one skill: by scikit-learn, from the stored logits."""
    results, split = Results(whole.plan, store_of(whole), {}), whole.plan.splits["cases"]
    inside = split.frame["case"].isin(["if", "because"]).to_numpy()
    rows = {row.name: row for row in results.rows if row.checkpoint == 30 and row.question in ("full", "prune")}
    odds = {name: -np.diff(results.logits(row, "cases")[inside], axis=1)[:, 0] for name, row in rows.items()}
    gold = split.gold[inside]
    expected = {name: balanced_accuracy_score(gold, (one < 0).astype(int)) for name, one in odds.items()}
    here = "case == 'if / because' and dataset == 'cases'"
    scores = whole.tables["scores"].query(f"{here} and checkpoint == 30 and question in ('full', 'prune')")
    for metric, by_hand in (("balanced", expected), ("auc", {n: roc_auc_score(gold == 0, one) for n, one in odds.items()})):
        found = scores[scores["metric"] == metric].set_index("subnetwork")["value"]
        assert found.to_dict() == pytest.approx(by_hand)
    small_ones = [value for name, value in expected.items() if name.startswith("l0-70")]
    row = whole.tables["spread"].query(f"{here} and target == 0.7 and metric == 'balanced'").iloc[0]
    assert (row["full"], row["min"], row["max"]) == pytest.approx((expected["full"], min(small_ones), max(small_ones)))
    row = whole.tables["skills"].query(f"{here} and target == 0.7 and metric == 'balanced'").iloc[0]
    assert row["change"] == pytest.approx(np.mean(small_ones) - expected["full"])
    assert set(whole.tables["effective_size"].query("metric == 'balanced' and whole")["set"]) == {"balanced"}
    assert "balanced: if / because" in set(whole.tables["effective_size"]["set"])
    whole_set = whole.tables["ablation"].query("case == 'all' and dataset == 'cases' and units == 'L0.H1'").set_index("metric")
    used = drawn(split.frame, 40, 0)
    full = results.answers(rows["full"], "cases")[used]
    assert whole_set.loc["balanced", "full"] == pytest.approx(
        np.mean([full[split.gold[used] == label].mean() for label in (0, 1)])
    )
    page = (whole.report / "report.html").read_text(encoding="utf-8")
    assert "Skills in numbers" in page


def test_the_average_outside_the_core_and_the_pairs_of_it(whole: Outcome) -> None:
    table = whole.tables["ablation"]
    members = str(whole.tables["core"].iloc[-1]["members"]).split()
    rows = table[(table["dataset"] == "cases") & (table["case"] == "focus")]
    heads = rows[rows["kind"] == "head"]
    outside = heads[~heads["units"].isin(members)]
    inside = heads[heads["units"].isin(members)]
    for column in ("change", "kl"):
        means = inside[column].mean(), outside[column].mean(), inside[column].mean() - outside[column].mean()
        assert rows.set_index("units").loc[[INSIDE, OUTSIDE, BEYOND], column].tolist() == pytest.approx(means)
    pairs = rows[(rows["kind"] == "set") & rows["core"] & (rows["size"] == 2)]
    assert len(pairs) == len(members) * (len(members) - 1) // 2
    assert pairs["interaction"].notna().all()


def test_effective_size_equals_the_function_on_the_accuracy_table(whole: Outcome) -> None:
    table = whole.tables["effective_size"]
    assert set(table["checkpoint"]) == {0, 10, 30}
    assert table["nested"].all()
    rows = whole.tables["scores"]
    rows = rows[rows["question"].isin(["full", "effective_size"])]
    mine = effective_size(rows, order="seeds", one_sided=True, focus=["swap", "if"]).set_index(["checkpoint", "set"])
    theirs = table[(table["order"] == "seeds") & table["one_sided"]].set_index(["checkpoint", "set"])
    pd.testing.assert_series_equal(mine["effective_size"], theirs["effective_size"])
    one = rows[(rows["checkpoint"] == 10) & (rows["dataset"] == "validation") & (rows["seed"] == 0)]
    full = one.loc[one["target"] == 0, "value"].iloc[0]
    faithful = one.loc[(one["target"] > 0) & (one["value"] >= full - 0.03), "target"]
    other = rows[(rows["checkpoint"] == 10) & (rows["dataset"] == "validation") & (rows["seed"] == 1) & (rows["target"] > 0)]
    second = other.loc[other["value"] >= full - 0.03, "target"]
    by_hand = np.mean([1 - max(faithful, default=0.0), 1 - max(second, default=0.0)])
    assert theirs.loc[(10, "in domain"), "effective_size"] == pytest.approx(by_hand)


def test_nested_masks_are_labelled_and_hold_each_other(whole: Outcome) -> None:
    masks = whole.tables["masks"]
    grid = masks[masks["question"] == "effective_size"]
    assert grid["nested"].all()
    assert not masks.loc[masks["question"] == "prune", "nested"].any()
    unit = ["layer", "kind", "index"]
    one = grid[(grid["checkpoint"] == 10) & (grid["seed"] == 1)].pivot(index=unit, columns="target", values="kept")
    assert (one[0.6] <= one[0.4]).all()
    assert (one[0.4] <= one[0.2]).all()
    assert one.sum().tolist() == [8, 6, 4]
    for name in ("scores", "sizes", "differences", "variance", "effective_size", "core_over_training", "ablated_values"):
        assert "nested" in whole.tables[name], name


def test_ablated_values_of_the_same_masks(whole: Outcome) -> None:
    table = whole.tables["ablated_values"]
    assert set(table["ablate"]) == {"mean", "zero", "resample"}
    keys = ["subnetwork", "dataset", "case"]
    mean = table[table["ablate"] == "mean"].set_index(keys)["value"]
    same = of_cases(whole.tables["scores"]).set_index(keys)["value"]
    assert mean.to_dict() == same[mean.index].to_dict()
    model, _ = last_model(whole)
    row = next(r for r in whole.plan.rows if r.name == "l0-70-s1")
    assert row.masks is not None
    (mask,) = entries.read_masks(store_of(whole).get("search", row.masks.key))
    split = whole.plan.splits["validation"]
    fold = fold_classes(model.labels, split)
    right = []
    with torch.inference_mode(), gated(model, mask, "zero"):
        for first, second, gold in zip(split.frame["first"], split.frame["second"], split.gold, strict=True):
            logits = model.net(**model.tokenizer(first, second, return_tensors="pt")).logits[0]
            right.append(fold[int(logits.argmax())] == gold)
    zero = table[table["ablate"] == "zero"].set_index(keys)["value"]
    assert zero["l0-70-s1", "validation", "all"] == pytest.approx(np.mean(right))


def test_core_definitions_and_ranks(whole: Outcome) -> None:
    table = whole.tables["core"].set_index("definition")
    assert list(table.index) == ["all at 40 %", "all of the sparsest, 70 %", "in at least 75% of all", "all"]
    masks = whole.tables["masks"].query("question == 'prune' and kind == 'head'")
    counts = masks.groupby(["layer", "index"])["kept"].sum()
    assert table.loc["in at least 75% of all", "heads"] == (counts >= 3).sum()
    assert table.loc["all", "heads"] == (counts == 4).sum()
    shares = masks.groupby(["target", "layer", "index"])["kept"].mean().unstack(0)
    row = whole.tables["rank_correlations"].iloc[0]
    assert row["rho"] == pytest.approx(spearmanr(shares[0.4], shares[0.7])[0])
    over = whole.tables["core_over_training"]
    assert (over.loc[over["checkpoint"] == 30, "shared"] == over.loc[over["checkpoint"] == 30, "heads_last"]).all()


def test_attention_tables(whole: Outcome) -> None:
    scores, maps = whole.tables["attention"], whole.tables["attention_maps"]
    assert len(scores.drop_duplicates("unit")) == 8
    members = set(str(whole.tables["core"].iloc[-1]["members"]).split())
    assert set(scores.loc[scores["core"], "unit"]) == set(maps["unit"]) == members
    assert list(dict.fromkeys(maps["case"])) == ["swap", "if", ""]  # those in focus, then the study's own text
    assert "baker" in set(maps.loc[maps["example"] == 2, "query_word"])
    head = maps[(maps["example"] == 0) & (maps["unit"] == min(members))]
    assert head.groupby("query")["value"].sum().max() <= 1 + 1e-5


def test_ablations_at_a_checkpoint_equal_a_loop_over_its_model(whole: Outcome, earlier: Outcome) -> None:
    assert earlier.complete, small.holes(earlier)
    assert set(whole.plan.jobs) <= set(earlier.plan.jobs)  # nothing that was there is computed again
    table = earlier.tables["ablation"]
    assert set(table["checkpoint"]) == {0, 30}
    last = table[table["checkpoint"] == 30]
    same = whole.tables["ablation"].merge(last, on=["units", "dataset", "metric", "case"])
    assert len(same) == len(whole.tables["ablation"])
    assert (same["change_x"] == same["change_y"]).all()
    assert same["value_x"].equals(same["value_y"].rename("value_x"))
    model, means = model_at(earlier, 0)
    split = earlier.plan.splits["cases"]
    rows = drawn(split.frame, 40, 0)
    fold = fold_classes(model.labels, split)

    @torch.inference_mode()
    def right(closed: list[str]) -> np.ndarray:
        with gated(model, model.units.without(*closed), "mean", means):
            pairs = [tuple(split.frame.loc[i, ["first", "second"]]) for i in rows]
            logits = [model.net(**model.tokenizer(*pair, return_tensors="pt")).logits[0].numpy() for pair in pairs]
        return np.asarray(fold[np.stack(logits).argmax(-1)] == split.gold[rows])

    first = table.query("checkpoint == 0 and dataset == 'cases' and case == 'all' and metric == 'accuracy'").set_index("units")
    full = right([])
    assert (first["full"] == full.mean()).all()
    chosen = first.index[(first["set"].str.contains("top 3")) | first["kind"].isin(["head", "mlp"])]
    assert len(chosen) >= 11
    for units in chosen:
        assert first.loc[units, "value"] == pytest.approx(right(units.split(" + ")).mean()), units


def test_the_top_heads_are_the_same_everywhere(earlier: Outcome) -> None:
    """By hand: the core's heads by KL at the last checkpoint, on the cases in focus."""
    table, members = earlier.tables["ablation"], str(earlier.tables["core"].iloc[-1]["members"]).split()
    last = table.query("checkpoint == 30 and dataset == 'cases' and case == 'focus' and kind == 'head' and core")
    assert set(last["units"]) == set(members)
    top = set(last.sort_values("kl", ascending=False)["units"].head(3))
    in_order = [name for name in members if name in top]
    want = {" + ".join(c) for size in (2, 3) for c in combinations(in_order, size)}
    for _, part in table.groupby(["checkpoint", "dataset"]):
        assert set(part.loc[part["set"].str.contains("top 3"), "units"]) == want


def test_attention_at_checkpoint_0_is_that_of_its_model(earlier: Outcome) -> None:
    table = earlier.tables["attention"]
    assert set(table["checkpoint"]) == set(earlier.tables["attention_maps"]["checkpoint"]) == {0, 10, 30}
    model, _ = model_at(earlier, 0)
    split = earlier.plan.splits["cases"]
    scores = head_scores(model, split_words(model, split, drawn(split.frame, 20, 0)))
    first = table[table["checkpoint"] == 0].reset_index(drop=True)
    pd.testing.assert_frame_equal(first[list(scores.columns)], scores, check_exact=False, rtol=1e-4)
    then = table[table["checkpoint"] == 30]["mean"].to_numpy()
    assert np.abs(then - first["mean"].to_numpy()).max() > 1e-3  # fine-tuning moved it
    shown = cw.attention_map(model, "the baker fell .", "the nun fell .")
    maps = earlier.tables["attention_maps"].query("checkpoint == 0 and example == 2")
    for row in maps.itertuples():
        layer, head = (int(part[1:]) for part in str(row.unit).split("."))
        assert row.value == pytest.approx(shown.values[layer, head, row.query, row.key], abs=1e-5)
    core = earlier.tables["attention_core"].set_index(["checkpoint", "kind"])
    mine = first[first["core"] & (first["kind"] == "previous")]["mean"].mean()
    assert core.loc[(0, "previous"), "core"] == pytest.approx(mine)


def test_a_report_over_training_shows_the_last_checkpoint_elsewhere(whole: Outcome, earlier: Outcome) -> None:
    one, other = (models_of(outcome.tables)[0].tables for outcome in (whole, earlier))
    pd.testing.assert_frame_equal(one["attention"], other["attention"])
    assert set(other["ablation"]["checkpoint"]) == {30}
    assert set(other["ablation_over_training"]["checkpoint"]) == {0, 30}
    assert "ablation_over_training" not in one
    pages = [(outcome.report / "report.html").read_text(encoding="utf-8") for outcome in (whole, earlier)]
    assert ['id="ablation-over-training"' in page for page in pages] == [False, True]


def test_the_core_over_training_against_the_study_and_the_grid(whole: Outcome) -> None:
    table, masks = (
        whole.tables["core_over_training"],
        whole.tables["masks"].query("kind == 'head' and question == 'effective_size'"),
    )
    own = set(str(whole.tables["core"].iloc[-1]["members"]).split())
    kept = masks.assign(unit="L" + masks["layer"].astype(str) + ".H" + masks["index"].astype(str))
    every = kept.groupby(["checkpoint", "target", "unit"])["kept"].all()
    assert len(table) == 9
    for row in table.itertuples():
        here, last = ({unit for unit, all_keep in every[step, row.target].items() if all_keep} for step in (row.checkpoint, 30))
        assert (row.heads, row.heads_last, row.shared) == (len(here), len(last), len(here & last))
        assert (row.heads_core, row.shared_core) == (len(own), len(here & own))
        assert row.share_of_core == pytest.approx(len(here & own) / len(own))
        assert row.expected_core == pytest.approx(len(here) * len(own) / 8)
        assert row.p_core == pytest.approx(hypergeom.sf(len(here & own) - 1, 8, len(own), len(here)))
        inside = [[sum(unit.startswith(f"L{layer}.") for unit in units) for layer in (0, 1)] for units in (here, own)]
        assert row.expected_core_layers == pytest.approx(sum(a * b for a, b in zip(*inside, strict=True)) / 4)
        ways = product(*(range(min(a, b) + 1) for a, b in zip(*inside, strict=True)))  # heads shared in each layer
        chances = {each: prod(hypergeom.pmf(k, 4, a, b) for k, a, b in zip(each, *inside, strict=True)) for each in ways}
        enough = sum(chance for each, chance in chances.items() if sum(each) >= len(here & own))
        assert row.p_core_layers == pytest.approx(enough)


@pytest.mark.parametrize(("family", "padding"), [("roberta", "right"), ("gpt2", "left"), ("llama", "right")])
def test_models_from_end_to_end(tmp_path: Path, family: str, padding: str) -> None:
    """Fine-tuned, searched, judged, ablated, read: whatever the family, and the side its tokenizer pads on."""
    folder = tmp_path / "study"
    tiny.checkpoint(folder / "model", family)
    tokenizer = tiny.tokenizer(padding, types=family == "bert")
    tokenizer.save_pretrained(folder / "model")
    short = {"sparsity": [0.3, 0.5], "seeds": 2, "settings": {"steps": 3, "batch": 8}}
    grid = {"sparsity": [0.2, 0.5], "seeds": 2, "path": True, "settings": {"steps": 3, "batch": 8}}
    path = small.write_study(
        folder,
        **{**small.EVERYTHING, "effective_size": grid},
        fine_tune={"steps": 5, "batch": 8, "checkpoints": [2]},
        prune={"l0": short},
    )
    found = small.run(path, tmp_path / "store")
    assert found.complete
    assert found.tables["effective_size"]["checkpoint"].nunique() == 2
    assert set(found.tables["ablation"]["kind"]) >= {"head", "mlp", "set"}
    full = found.tables["scores"].query("subnetwork == 'full' and checkpoint == 5 and dataset == 'validation'")
    store = store_of(found)
    tuned = store.get(*found.plan.rows[0].predictions["validation"].inputs["fine_tune"])
    model = load(str(tuned.path("step-5")), tokenizer=str(tuned.path("tokenizer")))
    split = found.plan.splits["validation"]
    fold = fold_classes(model.labels, split)
    with torch.inference_mode():
        answers = [
            fold[int(model.net(**model.tokenizer(a, b, return_tensors="pt")).logits[0].argmax())]
            for a, b in zip(split.frame["first"], split.frame["second"], strict=True)
        ]
    assert full["correct"].iloc[0] == (np.array(answers) == split.gold).sum()


def test_a_plan_knows_its_cost_from_a_measured_step(study: Path) -> None:
    plan = make_plan(small.spec_of(study), study.parent)
    cost = estimate(plan, list(plan.jobs.values()), 2)
    searches = [j for j in plan.jobs.values() if j.kind == "search"]
    alone = estimate(plan, searches, 1)
    assert set(cost.forward) == {"train", "validation", "cases"}
    assert min(cost.forward.values()) > 0
    assert alone.seconds == pytest.approx(alone.report + alone.search * sum(j.work for j in searches))
    assert len(searches) == 4 + 3 * 2  # four of the search, and one path for each checkpoint and seed
    references = [j for j in plan.jobs.values() if j.kind == "reference"]
    assert len(references) == 3  # one per checkpoint, shared by its searches


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ablations": {"sets": ["L0.H0 + L2.H1"]}}, "no unit 'L2.H1'.*L0.H0 to L1.H3"),
        ({"focus": ["swop"]}, "focus: there is no case 'swop'.*swap"),
        ({"attention": {"dataset": "hans"}}, "attention.dataset: there is no 'hans'; the sets are train, validation, cases"),
        ({"effective_size": {"sparsity": [0.99]}}, "leaves none"),
    ],
)
def test_what_a_plan_refuses(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = small.write_study(tmp_path, **changes)
    with pytest.raises(InputError, match=message):
        make_plan(small.spec_of(path), tmp_path)


def test_a_pinned_model_is_one_of_the_hub_and_its_tuned_copy_is_not(study: Path, whole: Outcome) -> None:
    with pytest.raises(InputError, match=r"model.revision: is of a model on the hub, and model is a folder"):
        make_plan(small.spec_of(study, "model.revision=abc"), study.parent)
    job = next(job for job in whole.plan.jobs.values() if job.kind == "reference")
    pinned = replace(job, params={**job.params, "revision": "abc"})  # as of a model that came from there
    assert Work(pinned, store_of(whole), study.parent, no_progress).model().units == last_model(whole)[0].units


def test_a_list_of_cases_is_called_as_no_case_is(study: Path) -> None:
    with pytest.raises(InputError, match=r"focus.passive: is what a case is called"):
        make_plan(small.spec_of(study, "focus={passive: [swap]}"), study.parent)


def test_titles_are_unique_whatever_the_grid(study: Path) -> None:
    grid = "effective_size={sparsity: [0.4, 0.7], seeds: 2, settings: {steps: 9, batch: 8}}"
    plan = make_plan(small.spec_of(study, grid), study.parent)
    titles = [job.title for job in plan.jobs.values()]
    assert len(set(titles)) == len(titles)


def test_another_rule_or_focus_makes_new_tables_and_no_new_jobs(study: Path, whole: Outcome) -> None:
    again = small.run(study, store_of(whole).root, "effective_size.margin=0.2", "effective_size.order=seeds")
    assert again.computed == 0
    assert (again.tables["effective_size"]["margin"] == 0.2).all()
    assert set(again.tables["effective_size"].query("chosen")["order"]) == {"seeds"}


def test_lists_of_cases_have_their_own_sizes_ablations_and_lines(study: Path, whole: Outcome) -> None:
    again = small.run(study, store_of(whole).root, "focus={hard: [swap], both: [swap, if]}")
    assert again.computed == 0
    size, ablation, lines = (again.tables[name] for name in ("effective_size", "ablation", "dynamics"))
    assert list(dict.fromkeys(size.loc[size["whole"], "set"])) == ["in domain", "hard", "both", "mixed", "balanced"]
    for table, keys in ((ablation, ["units", "ablate"]), (lines, ["checkpoint"])):
        table = table.dropna(subset="value")  # a contrast has none
        alone, listed, other = (table[table["case"] == c].set_index(keys)["value"] for c in ("swap", "hard", "if"))
        assert len(listed)
        assert listed.to_dict() == pytest.approx(alone.to_dict())
        both = table[table["case"] == "both"].set_index(keys)["value"]
        assert both.to_dict() == pytest.approx(((alone + other) / 2).to_dict())  # as many examples of each
    assert set(ablation.loc[ablation["case"] == "if", "focus"]) == {"both"}
    assert "on cases, hard by up to" in small.said(again)
    assert "hard it goes from" in small.said(again)


def test_pairs_without_singles_and_focus_on_one_of_two_sets(tmp_path: Path) -> None:
    source = {"path": "cases.parquet", **small.COLUMNS, "case": "case"}
    task = {
        "train": {"path": "train.csv", **small.COLUMNS},
        "validation": {"path": "dev.jsonl", **small.COLUMNS},
        "challenge": {"cases": source, "others": {**source, "only": {"case": ["or", "and"]}}},
    }
    short = {"sparsity": [0.8], "seeds": 3, "settings": {"steps": 3, "batch": 8, "start_std": 2.0}}
    path = small.write_study(
        tmp_path / "study", task=task, prune={"l0": short}, fine_tune={"steps": 4, "batch": 8}, focus=["swap"],
        ablations={"singles": False, "pairs": True},
    )  # fmt: skip
    found = small.run(path, tmp_path / "store")
    assert found.complete
    both = small.run(path, tmp_path / "store", "ablations={examples: 40}")
    assert both.complete
    assert "nan" not in small.said(both)
    assert set(both.tables["ablation"].query("case == 'focus'")["dataset"]) == {"cases"}


def test_a_challenge_set_without_cases_and_a_second_set_in_domain(tmp_path: Path) -> None:
    inside = {"path": "dev.jsonl", **small.COLUMNS}
    task = {
        "train": {"path": "train.csv", **small.COLUMNS},
        "validation": {"matched": inside, "mismatched": {**inside, "limit": 25}},
        "challenge": {"cases": {"path": "cases.parquet", **small.COLUMNS}},
    }
    path = small.write_study(tmp_path / "study", **{**small.EVERYTHING, "focus": [], "task": task})
    found = small.run(path, tmp_path / "store")
    assert found.complete
    assert set(found.tables["scores"]["case"]) == {"all"}
    assert {"in domain", "challenge", "mixed", "mismatched", "cases", "balanced"} == set(found.tables["effective_size"]["set"])
    results = Results(found.plan, store_of(found), {})
    full = next(row for row in results.rows if row.way == "full" and row.checkpoint == 30)
    frames = [found.plan.splits[name].frame.reset_index() for name in ("validation", "mismatched")]
    places = frames[1].merge(frames[0].drop_duplicates(["first", "second"]), on=["first", "second"])["index_y"]
    scores = found.tables["scores"].query("subnetwork == 'full' and checkpoint == 30").set_index("dataset")
    assert scores.loc["mismatched", "correct"] == results.answers(full, "validation")[places].sum()
    assert scores["domain"].to_dict() == {
        "validation": "in-domain", "mismatched": "in-domain too", "cases": "challenge"
    }  # fmt: skip
    assert set(found.tables["spread"]["dataset"]) == {"validation", "mismatched", "cases"}
    page = (found.report / "report.html").read_text(encoding="utf-8")
    assert "in domain: mismatched" in page
    with pytest.raises(InputError, match="No challenge set has cases: give it a case column"):
        make_plan(small.spec_of(path, "focus=[swap]"), path.parent)


def test_cases_of_one_label_are_said_to_measure_recall(whole: Outcome) -> None:
    assert any("18 of 18 cases hold one label each; accuracy is its recall" in note for note in whole.plan.notes)


def test_comparing_two_studies(study: Path, whole: Outcome) -> None:
    spec, store = small.spec_of(study), store_of(whole)
    found = compare(spec, spec, (study.parent, study.parent), store)
    same = found.scores
    assert not any("jobs" in note for note in found.notes)
    more = make_plan(small.spec_of(study, "prune.l0.seeds=3"), study.parent)
    notes = compare(spec, more.spec, (study.parent, study.parent), store).notes
    assert any(re.fullmatch(rf"B \(small\): \d+ of its {len(more.jobs)} jobs, which have no result yet", n) for n in notes), (
        notes
    )
    assert (same["difference"] == 0).all()
    assert same["paired"].all()
    assert (same["low"] < 0).all()
    with pytest.raises(InputError, match="not evaluated yet"):
        compare(spec, small.spec_of(study, "fine_tune.steps=12"), (study.parent, study.parent), store)
    folded = "task.challenge.cases.fold={unknown: non-entailment}"
    three = small.spec_of(study, "task.labels=[entailment, non-entailment, unknown]", folded)
    with pytest.raises(InputError, match=r"not evaluated yet"):
        compare(spec, three, (study.parent, study.parent), store)
    tasks = [next(iter(make_plan(s, study.parent).tasks.values())) for s in (spec, three)]
    assert label_map(tasks[0], "cases") != label_map(tasks[1], "cases")


def test_the_command_compares_and_keeps_what_is_there(study: Path, whole: Outcome, tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    words = ("compare", study, study, "--store", store_of(whole).root, "--out", table)
    done = small.command(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "A: small" in done.stdout
    assert "B - A" in done.stdout
    assert set(pd.read_csv(table)["case"]) >= {"all", "swap", "if"}
    again = small.command(*words, cwd=tmp_path)
    assert again.returncode == 2
    assert "exists already" in again.stderr
