"""Sets of heads that a study chooses itself: two heads that stand in for each other, planted by hand, and found."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import small
import tiny
import torch

from corewood.data.overlap import overlap
from corewood.errors import InputError
from corewood.model.gates import gated
from corewood.model.load import Model, wrap
from corewood.store.store import Store
from corewood.study.job import Job
from corewood.study.plan import make_plan
from corewood.study.questions.ablations import load, subsets
from corewood.study.run import Outcome

TWINS, OTHER = ("L0.H1", "L0.H3"), "L1.H2"  # heads of which either is enough; one that does next to nothing
SETS = "ablations={sets: [core, top 2], examples: 40}"


def redundant() -> Model:
    """A model that answers by the sign of one number, which two heads compute alike.

    Coordinates 0 and 1 of every embedding are the same; the twins add their number to the one and take it from the other, and
    the classifier reads the difference. All other units have next to no influence.
    """
    net = tiny.net()
    first = net.bert.encoder.layer[0].attention
    one, other = slice(8, 16), slice(24, 32)  # rows of the twins
    with torch.no_grad():
        for table in (net.bert.embeddings.word_embeddings, net.bert.embeddings.position_embeddings,
                      net.bert.embeddings.token_type_embeddings):  # fmt: skip
            table.weight[:, 1] = table.weight[:, 0]
        for layer in net.bert.encoder.layer:
            layer.attention.output.dense.weight.mul_(1e-3)
            layer.output.dense.weight.mul_(1e-3)
        for part in (first.self.query, first.self.key, first.self.value):
            part.weight[other], part.bias[other] = part.weight[one].clone(), part.bias[one].clone()
        out = first.output.dense.weight
        out[:, one], out[:, other] = 0, 0
        for column in (one.start, other.start):
            out[0, column], out[1, column] = 1.0, -1.0
        net.bert.pooler.dense.weight.copy_(torch.eye(32))
        net.bert.pooler.dense.bias.zero_()
        net.classifier.weight.zero_()
        net.classifier.weight[0, :2], net.classifier.weight[1, :2] = torch.tensor([3.0, -3.0]), torch.tensor([-3.0, 3.0])
        net.classifier.bias.zero_()
    return wrap(net, tiny.tokenizer(), "redundant")


def margins(model: Model, frame: pd.DataFrame) -> np.ndarray:
    """(example,) the logit of the first class less that of the second, one by one."""
    with torch.inference_mode():
        pairs = zip(frame["first"], frame["second"], strict=True)
        logits = [model.net(**model.tokenizer(a, b, return_tensors="pt")).logits[0].numpy() for a, b in pairs]
    return np.array([one - other for one, other in logits])


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Labelled by the model's own answers: it is always right, and so it is without either of the twins."""
    folder = tmp_path_factory.mktemp("redundant")
    model = redundant()
    pool = overlap(seed=3, train=20, validation=240, per_case=2).validation.frame
    seen: list[float] = []
    dense = model.layers[0].attention.output.dense
    hook = dense.register_forward_pre_hook(lambda _module, args: seen.append(float(args[0][0, 0, 8])))
    margins(model, pool)
    hook.remove()
    with torch.no_grad():  # as many above zero as below
        for row in (8, 24):
            model.layers[0].attention.self.value.bias[row] -= np.median(seen)
    margin = margins(model, pool)
    order = np.argsort(margin)
    clear = pool.iloc[[*order[:40], *order[-40:]]].assign(label=["non-entailment"] * 40 + ["entailment"] * 40)
    mixed = clear.sample(80, random_state=0).reset_index(drop=True)
    mixed[["first", "second", "label"]].to_csv(folder / "train.csv", index=False)
    mixed[["first", "second", "label"]].to_json(folder / "dev.jsonl", orient="records", lines=True)
    mixed.assign(case=["odd", "even"] * 40, group="made up").to_parquet(folder / "cases.parquet")
    model.net.save_pretrained(folder / "model")
    model.tokenizer.save_pretrained(folder / "model")
    (folder / "masks").mkdir()
    for name, extra in (("one", (0, 0)), ("two", (1, 1))):  # what they share: the twins, and one more
        heads = np.zeros((2, 4), int)
        heads[0, 1] = heads[0, 3] = heads[1, 2] = heads[extra] = 1
        np.save(folder / "masks" / f"{name}.npy", heads)
    return small.write_study(folder, fine_tune=None, prune={"given": {"path": "masks"}}, ablate="zero", focus=["odd"])


@pytest.fixture(scope="module")
def found(study: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return small.run(study, tmp_path_factory.mktemp("found") / "store", SETS)


def closed(outcome: Outcome, which: str) -> list[tuple[str, ...]]:
    """What jobs with such titles removed."""
    store = Store(outcome.report.parents[2])
    mine = [store.get(job.kind, job.key) for job in outcome.plan.jobs.values() if which in job.title]
    sets = {tuple(tuple(units) for units in entry.meta["closed"]) for entry in mine}
    assert len(sets) == 1, "the same on every dataset"
    return list(sets.pop())


def test_two_heads_that_stand_in_for_each_other(study: Path, found: Outcome) -> None:
    assert found.complete, small.holes(found)
    assert set(str(found.tables["core"].iloc[-1]["members"]).split()) == {*TWINS, OTHER}
    pair = " + ".join(TWINS)
    table = found.tables["ablation"].set_index(["units", "dataset", "case"])
    for place in (("validation", "all"), ("cases", "focus")):
        assert table.loc[("L0.H1", *place), "full"] == 1
        assert table.loc[("L0.H1", *place), "change"] == table.loc[("L0.H3", *place), "change"] == 0
        both = table.loc[(pair, *place)]
        assert both["change"] == both["interaction"] == both["pure"] < -0.3  # what is left is chance
        assert both["interaction_high"] < 0
    assert closed(found, "sets of the top 2") == [TWINS]
    assert closed(found, "ablate the core on") == [(*TWINS, OTHER)]
    sets = found.tables["ablation"].drop_duplicates("units").set_index("units")["set"]
    assert sets[sets != ""].to_dict() == {pair: "top 2, pair", f"{pair} + {OTHER}": "core"}
    said = small.said(found)
    assert "All 3 heads of the core removed at once" in said
    assert "together they matter more than apart, so core heads stand in for each other" in said
    assert f"Of one set of core heads removed together ({TWINS[0]} and {TWINS[1]}, which do most alone), one matters" in said
    assert "their heads stand in for each other" in said


def test_kl_from_the_full_model_and_the_order_of_heads(study: Path, found: Outcome) -> None:
    table = found.tables["ablation"].query("dataset == 'cases' and case == 'focus'").set_index("units")
    model, frame = redundant(), found.plan.splits["cases"].frame
    model.net.load_state_dict(type(model.net).from_pretrained(study.parent / "model").state_dict())
    used = found.plan.spec.ablations
    assert used is not None
    assert used.examples == 40
    assert table["n"].eq(20).all()  # of forty examples, half are odd
    from corewood.data.read import drawn

    rows = drawn(frame, 40, 0)
    odd = frame.iloc[[i for i in rows if frame["case"][i] == "odd"]]
    full = margins(model, odd)
    for unit in (*TWINS, OTHER):
        with gated(model, model.units.without(unit), "zero"):
            less = margins(model, odd)
        p, q = 1 / (1 + np.exp(-full.astype(float))), 1 / (1 + np.exp(-less.astype(float)))
        by_hand = (p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))).mean()
        assert table.loc[unit, "kl"] == pytest.approx(by_hand, rel=1e-3, abs=1e-7)
    store = Store(found.report.parents[2])
    (rank,) = [job for job in found.plan.jobs.values() if job.kind == "rank"]
    meta = store.get("rank", rank.key).meta
    assert meta["heads"] == sorted((*TWINS, OTHER), key=lambda unit: -table.loc[unit, "kl"])
    assert meta["kl"] == pytest.approx([table.loc[unit, "kl"] for unit in meta["heads"]])
    assert meta["heads"][2] == OTHER


def test_every_set_of_the_top_heads_without_single_ones(study: Path, found: Outcome) -> None:
    """Heads of the core are then removed one by one for their order."""
    store = found.report.parents[2]
    again = small.run(study, store, "ablations={singles: false, sets: [top 4, top 2], examples: 40}")
    every = [*combinations((*TWINS, OTHER), 2), (*TWINS, OTHER)]  # the core has but three
    assert closed(again, "sets of the top 4") == every
    assert closed(again, "heads of the core on") == [(unit,) for unit in (*TWINS, OTHER)]
    table = again.tables["ablation"].query("dataset == 'validation'").set_index("units")
    assert set(table["kind"]) == {"head", "set"}
    assert table.loc[[" + ".join(units) for units in every], "interaction"].notna().all()
    whole, change = table.loc[" + ".join((*TWINS, OTHER))], table["change"]
    pairs = sum(change[" + ".join(pair)] for pair in combinations((*TWINS, OTHER), 2))
    assert whole["pure"] == pytest.approx(whole["change"] - pairs + sum(change[unit] for unit in (*TWINS, OTHER)))


def test_pairs_without_single_ones_have_interactions(study: Path, found: Outcome) -> None:
    again = small.run(study, found.report.parents[2], "ablations={singles: false, pairs: true, examples: 40}")
    table = again.tables["ablation"].query("kind == 'set'")
    assert len(table)
    assert table["interaction"].notna().all()


def test_subsets_by_hand() -> None:
    assert subsets(["a", "b", "c"]) == [("a", "b"), ("a", "c"), ("b", "c"), ("a", "b", "c")]
    assert [len(subsets(["head"] * k)) for k in range(2, 7)] == [2**k - 1 - k for k in range(2, 7)]


def test_what_sets_cost_before_the_core_is_known(study: Path) -> None:
    """In single units: one head has half of the model above it, the lowest of two two thirds, of three three quarters."""
    assert load([("L0.H0",)] * 5) == 5
    assert load([("a", "b"), ("a", "b", "c")]) == pytest.approx((2 / 3 + 3 / 4) / (1 / 2))
    plan = make_plan(small.spec_of(study, "ablations={sets: [core, top 3], pairs: true, examples: 30}"), study.parent)
    (said,) = plan.assumed
    assert "2 heads" in said  # the masks keep 6 of 10 units: 8 heads * 0.6 / 2

    def work(which: str) -> int:
        (job,) = [job for job in plan.jobs.values() if job.title == f"ablate {which} on cases"]
        return job.work

    assert work("sets of the top 3") == 30 * (3 * 4 / 3 + 3 / 2)
    assert work("the core") == 30 * 4 / 3
    assert work("pairs of the core") == 2 * 30 * 4 / 3  # a pair, and the whole core


def test_jobs_of_before_keep_their_keys(study: Path) -> None:
    """What makes the key of a job on the last checkpoint, and what its inputs are called, from before there were others."""
    plan = make_plan(small.spec_of(study, "ablations={sets: [core, top 2, L0.H1 + L1.H2], pairs: true}"), study.parent)
    jobs: dict[str, Job] = {job.title: job for job in plan.jobs.values()}
    common = {"model", "revision", "pad_token", "max_length", "labels", "ablate", "examples", "seed"}
    for title, own, inputs in (
        ("ablate layer 1 on cases", {"closed"}, set()),
        ("ablate the named sets on cases", {"closed"}, set()),
        ("ablate pairs of the core on cases", {"core"}, {"search given-one", "search given-two"}),
    ):
        assert set(jobs[title].params) == common | own
        assert set(jobs[title].inputs) == {"reference", "encoded", "data"} | inputs
    assert jobs["ablate the named sets on cases"].params["closed"] == [["L0.H1", "L1.H2"]]
    assert jobs["ablate pairs of the core on cases"].params["core"] == {"given-one": 0, "given-two": 1}


def test_units_are_still_read_by_name(study: Path) -> None:
    with pytest.raises(InputError, match="no unit 'cores'"):
        make_plan(small.spec_of(study, "ablations={sets: [cores]}"), study.parent)
