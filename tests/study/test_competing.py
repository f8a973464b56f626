"""Competing subnetworks and the core alone: what is planned, what is searched, what the report says."""

from __future__ import annotations

import shutil
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small

from corewood.analyse.generalisation import NOISE, RATIO, judged
from corewood.data.labels import fold_classes
from corewood.errors import InputError, StudyError
from corewood.model.mask import Mask
from corewood.prune.l0 import State
from corewood.store.store import Store
from corewood.study.job import execute
from corewood.study.plan import make_plan
from corewood.study.results import Results
from corewood.study.run import Outcome
from corewood.study.subnetwork import Subnetwork

SEARCHES = {"sparsity": [0.5, 0.6], "seeds": 2, "settings": {"budget": 0.1, "batch": 8}}
PRUNE: dict[str, Any] = {
    "l0": {**SEARCHES, "without": "core", "with": "L1.H3 + L0.MLP"},
    "random": {"like": "l0"},
    "core": {"draws": 2},
}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.write_study(tmp_path_factory.mktemp("competing"), prune=PRUNE)


@pytest.fixture(scope="module")
def whole(study: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return small.run(study, tmp_path_factory.mktemp("whole") / "store")


def results_of(outcome: Outcome) -> Results:
    return Results(outcome.plan, Store(outcome.report.parents[2]), outcome.holes)


def masks(outcome: Outcome, way: str) -> dict[str, tuple[Subnetwork, Mask]]:
    results = results_of(outcome)
    return {r.name: (r, results.mask(r)) for r in results.rows if r.way == way}


def core_of(outcome: Outcome) -> Mask:
    return reduce(and_, [mask for _, mask in masks(outcome, "l0").values()])


def test_masks_leave_out_the_core_or_hold_what_is_named_at_exact_sizes(whole: Outcome) -> None:
    assert whole.complete, small.holes(whole)
    core = core_of(whole)
    assert core.heads.any()
    without, held = masks(whole, "l0 without"), masks(whole, "l0 with")
    assert len(without) == len(held) == len(masks(whole, "l0")) == 4
    for row, mask in (*without.values(), *held.values()):
        assert len(mask) == round(10 * (1 - row.target))
    assert not any((mask.heads & core.heads).any() for _, mask in without.values())
    assert all({"L1.H3", "L0.MLP"} <= set(mask) for _, mask in held.values())
    assert set(without) == {f"l0-without-{size}-s{seed}" for size in (50, 60) for seed in (0, 1)}


def test_plain_searches_keep_their_keys(study: Path, whole: Outcome) -> None:
    spec = small.spec_of(study, f"prune={{l0: {SEARCHES}}}".replace("'", ""))
    alone = make_plan(spec, study.parent)
    titles = {job.title: key for key, job in whole.plan.jobs.items()}
    assert all(titles[job.title] == key for key, job in alone.jobs.items())


def test_a_killed_search_goes_on_to_the_same_bytes(whole: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store as it was before one search, which is stopped after its first saved state and run again."""
    job = next(job for job in whole.plan.jobs.values() if job.title == "search 60 % seed 1 without core")
    first = Store(whole.report.parents[2])
    done = first.folder(job.kind, job.key)
    shutil.copytree(first.root, tmp_path / "store")
    store = Store(tmp_path / "store")
    store.discard(job.kind, job.key)

    class Killed(BaseException):
        pass

    saved = State.save

    def stop(state: State, path: Path) -> None:
        saved(state, path)
        raise Killed

    monkeypatch.setattr("corewood.study.ways.l0.SAVE_EVERY", 0.0)
    monkeypatch.setattr(State, "save", stop)
    with pytest.raises(Killed):
        execute(job, store, lambda *_: None)
    monkeypatch.setattr(State, "save", saved)
    assert not store.has(job.kind, job.key)
    execute(job, store, lambda *_: None)
    for file in done.iterdir():
        if file.name != "meta.json":
            assert file.read_bytes() == (store.folder(job.kind, job.key) / file.name).read_bytes(), file.name


def test_the_table_of_competing_searches_against_its_sources(whole: Outcome) -> None:
    table = whole.tables["competing"]
    sizes = whole.tables["sizes"].set_index("subnetwork")
    scores = whole.tables["scores"]
    assert len(table) == 12
    core = core_of(whole)
    for _, row in table.iterrows():
        assert row["unseen_kl"] == sizes.loc[row["subnetwork"], "unseen_kl"]
        lowest = sizes[(sizes["way"] == "l0") & (sizes["target"] == row["target"])]["unseen_kl"].min()
        assert row["faithful"] == (row["unseen_kl"] <= max(RATIO * lowest, lowest + NOISE))
        mine = scores[(scores["subnetwork"] == row["subnetwork"]) & (scores["metric"] == "accuracy")]
        assert row["in_domain"] == mine.loc[mine["domain"] == "in-domain", "value"].iloc[0]
        assert row["cases"] == pytest.approx(judged(mine[mine["domain"] == "challenge"])["value"].mean())
    units = table.groupby("way")["units"].unique().map(list).to_dict()
    heads = " ".join(name for name in core.names if ".H" in name)
    assert units == {"l0": [""], "l0 without": [heads], "l0 with": ["L1.H3 L0.MLP"]}
    assert set(whole.tables["convergence"]["way"]) == {"l0", "l0 without", "l0 with"}


def test_the_core_alone_and_around_it_as_many_as_each_mask_has(whole: Outcome) -> None:
    core, plain = core_of(whole), masks(whole, "l0")
    ((_, alone),) = masks(whole, "core").values()
    assert (alone.heads == core.heads).all()
    assert alone.mlps.all()
    filled = masks(whole, "core + random")
    assert len(filled) == 4 * 2
    for row, mask in filled.values():
        like = next(m for r, m in plain.values() if (r.target, r.seed) == (row.target, row.seed))
        assert (mask.heads.sum(), mask.mlps.sum()) == (like.heads.sum(), like.mlps.sum())
        assert not (core.heads & ~mask.heads).any()
    assert len({mask for _, mask in filled.values()}) > 4  # by lot
    ways = whole.tables["ways"]
    assert set(ways["way"]) == {"l0", "l0 without", "l0 with", "core + random", "random", "full"}
    one = ways[(ways["way"] == "core + random") & (ways["target"] == 0.5) & (ways["case"] == "all")].set_index("dataset")
    scores = whole.tables["scores"].query("way == 'core + random' and target == 0.5 and case == 'all' and metric == 'accuracy'")
    for dataset, part in scores.groupby("dataset"):
        assert one.loc[dataset, "value"] == pytest.approx(part["value"].mean())
    for name in ("stability", "survivors", "frequencies", "spread"):  # what is drawn is not what was found
        assert not set(whole.tables[name]["way"]) & {"core", "core + random", "random"}


def test_which_answers_the_core_gives(whole: Outcome) -> None:
    results, table = results_of(whole), whole.tables["core_alone"]
    task = whole.plan.tasks["task"]
    assert set(table["way"]) == {"full", "core", "core + random", "l0", "random"}
    for way, target in (("core", 0.0), ("random", 0.6), ("full", 0.0)):
        found = [r for r in results.rows if r.way == way and r.target == target and r.checkpoint == 30]
        for dataset in ("validation", "cases"):
            split = task.splits[dataset]
            fold = fold_classes(task.classes, split)
            said = np.array([fold[results.logits(r, dataset).argmax(-1)] for r in found])
            mine = table[(table["way"] == way) & (table["target"] == target) & (table["dataset"] == dataset)].set_index("label")
            for place, label in enumerate(split.labels):
                gold = split.gold == place
                assert mine.loc[label, "answered"] == pytest.approx((said == place).mean())
                assert mine.loc[label, "right"] == pytest.approx((said[:, gold] == place).mean())
                assert mine.loc[label, "n"] == gold.sum()
            assert mine["answered"].sum() == pytest.approx(1)


def test_the_report_answers_in_a_sentence_and_keeps_what_it_says_of_plain_searches(study: Path, whole: Outcome) -> None:
    said = small.said(whole)
    pairs = whole.tables["competing"].query("target == 0.5")
    kl = pairs.groupby("way")["unseen_kl"].mean()
    count = int(whole.tables["competing"].query("way == 'l0 without'")["pinned"].iloc[0])
    heads = f"{count} head{'' if count == 1 else 's'}"
    assert f"Is there a faithful subnetwork that holds none of the core ({heads})?" in said
    assert f"KL on unseen texts is {kl['l0 without']:.3g} ({kl['l0']:.3g} in plain searches)" in said
    assert "What does a subnetwork cost that has to hold L1.H3 and L0.MLP? With 50 % removed" in said
    assert "Does the core alone follow the shortcut?" in said
    assert "answers “" in said
    page = (whole.report / "report.html").read_text(encoding="utf-8")
    assert all(f'id="{name}"' in page for name in ("competing", "competing-table", "core-alone", "spread-l0"))
    assert "<option>l0 without</option>" in page
    assert "cases that the full model handles" in said or "handles none of the cases" in said
    # without them, the same is said of the plain searches
    plain = small.run(study, whole.report.parents[2], f"prune={{l0: {SEARCHES}}}".replace("'", ""))
    first = [line for line in small.said(plain).split(". ") if line.startswith("With 50 % of the units removed")]
    assert first
    assert all(line in said for line in first)


def test_an_empty_core_is_a_hole_that_says_what_to_do_and_the_rest_is_there(study: Path, whole: Outcome) -> None:
    changes = ["prune.l0.sparsity=[0.9]", "prune.l0.seeds=5", "prune.l0.settings={steps: 2, batch: 8}", "prune.l0.with=[L1.H3]"]
    found = small.run(study, whole.report.parents[2], *changes)
    assert not core_of(found).heads.any()
    holes = small.holes(found)
    assert "no head is in all 5 masks of prune.l0" in holes["core of the L0 masks"]
    assert "name units in prune.l0.without" in holes["core of the L0 masks"]
    assert holes["search 90 % seed 0 without core"] == "needs core of the L0 masks"
    assert set(found.tables["competing"]["way"]) == {"l0", "l0 with"}
    assert set(found.tables["ways"]["way"]) == {"l0", "l0 with", "random", "full"}
    assert "core_alone" not in found.tables


def test_a_core_that_leaves_no_room_is_a_hole_that_says_so(study: Path, whole: Outcome) -> None:
    found = small.run(study, whole.report.parents[2], "prune.l0.sparsity=[0.1, 0.3]", "prune.l0.with=null", "prune.core=null")
    core = core_of(found)
    holes = small.holes(found)
    left = 10 - core.heads.sum()
    assert left < 9
    assert f"without {core.heads.sum()} of them {left} are left" in holes["search 10 % seed 0 without core"]
    assert "larger sparsity" in holes["search 10 % seed 0 without core"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("prune.l0.without=[L0.H9]", r"prune.l0.without: the model has no unit 'L0.H9'. Did you mean 'L0.H"),
        ("prune.l0.with=L5.MLP", r"prune.l0.with: the model has no unit 'L5.MLP'"),
        ("prune.l0.without=L0.H0 + L0.H1 + L0.H2 + L0.H3 + L1.H0 + L1.H1", r"prune.l0.without: 50 % removed keeps 5 of 10"),
        ("prune.l0.with=L0.H0 + L0.H1 + L0.H2 + L0.H3 + L1.H0", r"prune.l0.with: 60 % removed keeps 4 of 10"),
    ],
)
def test_units_are_checked_before_anything_runs(study: Path, change: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        make_plan(small.spec_of(study, change), study.parent)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("prune.l0.seeds=1", None),
        ("prune.l0={sparsity: 0.5, seeds: 1, without: core}", "ask for two seeds or more, or name units"),
        ("prune={core: {draws: 1}, importance: {sparsity: 0.5}}", "core: is what the masks of l0 have in common"),
        ("effective_size={sparsity: [0.5], without: core}", "without: stands in prune.l0"),
        ("prune.l0.wthout=core", "prune.l0.wthout: unknown key. Did you mean 'without'"),
        ("prune.l0.wiht=core", "prune.l0.wiht: unknown key. Did you mean 'with'"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_reason(study: Path, change: str, why: str | None) -> None:
    if why is None:  # two sizes are two masks
        small.spec_of(study, change)
        return
    with pytest.raises(StudyError, match=why):
        small.spec_of(study, change)


def test_the_paper_preset_along_a_path_and_by_name(study: Path) -> None:
    """Both are planned; what they do with pinned units is in tests/model/test_l0.py."""
    for changes in (["prune.l0.path=true"], ["prune.l0.preset=paper", "prune.l0.settings={}"]):
        plan = make_plan(small.spec_of(study, *changes), study.parent)
        assert {r.way for r in plan.rows} >= {"l0", "l0 without", "l0 with", "core", "core + random"}
        assert len({r.name for r in plan.rows if r.checkpoint == 30}) == len([r for r in plan.rows if r.checkpoint == 30])


def test_the_study_that_a_report_shows_can_be_read_again(study: Path) -> None:
    spec = small.spec_of(study)
    again = type(spec).model_validate(spec.model_dump(mode="json", exclude_defaults=True))
    assert again == spec
