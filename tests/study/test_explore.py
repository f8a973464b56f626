"""The live page's server over HTTP: what it says is what the library gives, and nobody else may ask."""

from __future__ import annotations

import ast
import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import exploring
import numpy as np
import pytest
import small
import tiny
import torch
from exploring import Page

import corewood as cw
from corewood.cli.exploring import study_subject
from corewood.data.encode import words_of
from corewood.evaluate.attention import merged, normed_attention_of
from corewood.explore import answers, room
from corewood.explore.asked import Place
from corewood.explore.keep import save, saved
from corewood.explore.subject import OfStudy, OneCheckpoint
from corewood.model.load import Model
from corewood.model.mask import Mask
from corewood.model.mask_files import read_masks
from corewood.study.ways import given

FIRST, SECOND = "The nun saw the cook near the baker.", "The cook saw the nun."


@pytest.fixture(scope="module")
def explored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, OfStudy]:
    return exploring.study(tmp_path_factory.mktemp("explore"))


@pytest.fixture(scope="module")
def subject(explored: tuple[Path, OfStudy]) -> OfStudy:
    return explored[1]


@pytest.fixture(scope="module")
def page(subject: OfStudy) -> Iterator[Page]:
    with exploring.served(subject) as found:
        yield found


@pytest.fixture(scope="module")
def model(subject: OfStudy) -> Model:
    """Read from the store once more: the server has its own."""
    return subject.results.model(subject.results.find("full"))


def place(step: int = 20) -> dict[str, Any]:
    return {"task": "task", "tuning": 0, "step": step}


def a_mask(seed: int, model: Model, closed: float = 0.4) -> Mask:
    return model.units.from_vector(np.random.default_rng(seed).random(len(model.units)) > closed)


def body(mask: Mask, ablate: str = "mean", step: int = 20, **more: Any) -> dict[str, Any]:
    return {"place": place(step), "mask": room.bits(mask), "ablate": ablate, **more}


def gated_logits(model: Model, mask: Mask, ablate: Any, *texts: str) -> np.ndarray:
    inputs = model.tokenizer(*texts, truncation=True, max_length=model.max_length, return_tensors="pt")
    with cw.gated(model, mask, ablate), torch.inference_mode():
        return np.asarray(model.net(**inputs).logits[0])


# what it says


@pytest.mark.parametrize("ablate", ["mean", "zero"])
def test_answers_are_those_of_gated(page: Page, model: Model, ablate: str) -> None:
    full = gated_logits(model, model.units.full(), ablate, FIRST, SECOND)
    for seed in range(4):
        mask = a_mask(seed, model)
        found = page.ask("answer", **body(mask, ablate, first=FIRST, second=SECOND))
        wanted = gated_logits(model, mask, ablate, FIRST, SECOND)
        assert found["logits"] == pytest.approx(wanted.tolist(), abs=1e-5)
        for name, logits in (("now", wanted), ("full", full)):
            assert found[name] == pytest.approx(torch.tensor(logits).softmax(-1).tolist(), abs=1e-5)
        assert found["classes"] == ["entailment", "non-entailment"]
        assert found["cut"] is None
    alone = page.ask("answer", **body(mask, ablate, first=FIRST))  # one text, where there may be two
    assert alone["logits"] == pytest.approx(gated_logits(model, mask, ablate, FIRST).tolist(), abs=1e-5)


def test_a_long_text_is_cut_and_an_empty_one_is_refused(page: Page, model: Model) -> None:
    mask, long = a_mask(1, model), "the nun saw the cook " * 40
    found = page.ask("answer", **body(mask, first=long))
    assert (found["cut"], found["tokens"]) == (64, 64)
    assert found["logits"] == pytest.approx(gated_logits(model, mask, "mean", long).tolist(), abs=1e-5)
    for kind in ("answer", "speed"):
        assert "empty" in page.refused(kind, **body(mask, first=" \n"))


def test_an_earlier_checkpoint_answers_with_its_own_weights_and_means(page: Page, subject: OfStudy) -> None:
    early = subject.results.model(subject.results.full(("task", 0), 5))  # type: ignore[arg-type]
    assert early.means is None
    cw.mean_activations(early, subject.plan.tasks["task"].splits["train"], 256)
    mask = a_mask(5, early)
    found = page.ask("answer", **body(mask, step=5, first=FIRST, second=SECOND))
    assert found["logits"] == pytest.approx(gated_logits(early, mask, "mean", FIRST, SECOND).tolist(), abs=1e-5)
    assert "no model" in page.refused("answer", **body(mask, step=7, first=FIRST))


def test_what_a_click_would_do_is_what_it_does(page: Page, model: Model) -> None:
    """Of open units that close, and of closed ones that open; layer by layer here, one by one there."""
    mask = a_mask(2, model)
    found = page.ask("flips", **body(mask, first=FIRST, second=SECOND))
    before = torch.tensor(gated_logits(model, mask, "mean", FIRST, SECOND)).softmax(-1)
    said, flips = int(before.argmax()), []
    for unit, change in enumerate(found["changes"]):
        clicked = model.units.from_vector(mask.vector ^ (np.arange(len(model.units)) == unit))
        after = torch.tensor(gated_logits(model, clicked, "mean", FIRST, SECOND)).softmax(-1)
        assert change == pytest.approx(float(after[said] - before[said]), abs=1e-5)
        flips += [{"unit": unit, "answer": model.labels[int(after.argmax())]}] if int(after.argmax()) != said else []
    assert found["flips"] == flips
    assert found["answer"] == model.labels[said]


def test_attention_is_the_librarys_with_and_without_the_mask(page: Page, model: Model) -> None:
    mask = a_mask(3, model)
    for masked, own in ((False, model.units.full()), (True, mask)):
        with cw.gated(model, own):
            shown = cw.attention_map(model, FIRST, SECOND)
            words = words_of(model.tokenizer, (FIRST, SECOND), model.max_length)
            normed = merged(words, normed_attention_of(model, [words])[1][0].numpy())
        for flavour, wanted in ((False, shown.values), (True, normed)):
            asked = body(mask, first=FIRST, second=SECOND, layer=1, head=2, masked=masked, normed=flavour)
            found = page.ask("attention", **asked)
            assert np.array(found["values"]) == pytest.approx(wanted[1, 2], abs=2e-6)
            assert found["words"] == list(shown.words)
            assert found["sentence"] == shown.sentence.tolist()
    assert "no head L2.H2" in page.refused("attention", **{**asked, "layer": 2})
    with pytest.MonkeyPatch.context() as smaller:
        smaller.setattr(answers, "MOST", model.units.layers * model.units.heads * 5**2)
        assert "attention is shown of up to 5; shorten it" in page.refused("attention", **asked)


def test_a_model_that_gives_no_number_says_so() -> None:
    broken = tiny.model()
    with torch.no_grad():
        broken.net.classifier.bias.fill_(torch.nan)
    with pytest.raises(cw.InputError, match="gives no number for this text"):
        answers.logits_on(broken, answers.encoded(broken, [FIRST]), broken.units.full(), "zero")


def test_python_of_a_changed_study_finds_it_and_its_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, _ = exploring.study(tmp_path / "there")
    monkeypatch.chdir(tmp_path)
    subject = study_subject(Path("there/study.yaml"), Path("there/store"), ["title=Other"], None)
    lines = subject.loading(Place.model_validate(place(20)))
    assert lines[0] == f"# in {path.parent}"
    assert lines[1].startswith(
        f"outcome = cw.run(cw.read_study('study.yaml', ['title=Other'], []), store={str(path.parent / 'store')!r})"
    )


def test_cases_are_judged_as_predict_judges_them(page: Page, subject: OfStudy, model: Model) -> None:
    mask, task = a_mask(4, model, 0.5), subject.plan.tasks["task"]
    found = page.ask("cases", **body(mask, each=3))
    assert [c["case"] for c in found["cases"]] == ["all", *task.splits["cases"].cases.unique()]
    assert {c["n"] for c in found["cases"]} == {3}
    flips = 0
    for part in subject.parts(subject_place(), 3):
        split = task.splits[part.dataset]
        some = cw.Split(part.dataset, split.frame.iloc[part.rows].reset_index(drop=True), split.labels, split.fold)
        predictions = cw.predict(model, mask, some, progress=False)
        table = predictions.accuracy().set_index(["subnetwork", "case"])["value"]
        differ = predictions.wrong(0)
        flips += len(differ)
        for case in (c for c in found["cases"] if c["dataset"] == part.dataset):
            assert case["full"] == pytest.approx(table[-1, case["case"]])
            assert case["now"] == pytest.approx(table[0, case["case"]])
            for name, share in case["others"].items():
                right = subject.results.answers(subject.results.find(name), part.dataset)[part.rows]
                inside = np.ones(len(some), bool) if case["case"] == "all" else (some.cases == case["case"]).to_numpy()
                assert share == pytest.approx(right[inside].mean())
        listed = [f for f in found["flips"] if f["dataset"] == part.dataset]
        assert {f["example"] for f in listed} == set(part.rows[differ.index])
        for flip in listed:
            row = differ.loc[int(np.flatnonzero(part.rows == flip["example"])[0])]
            assert (flip["first"], flip["second"], flip["gold"]) == (row["first"], row["second"], row["gold"])
            assert (flip["full"]["answer"], flip["now"]["answer"]) == (row["full"], row["answer"])
            assert flip["now"]["chance"] == pytest.approx(row["answer_p"], abs=1e-4)
    assert flips > 0
    assert set(found["cases"][0]["others"]) == {"l0-40-s0", "l0-40-s1"}


def subject_place() -> Any:
    return room.Place(**place())


def test_fewer_examples_are_among_those_of_more(subject: OfStudy, model: Model) -> None:
    few, more = (subject.parts(subject_place(), each) for each in (2, 4))
    for one, other in zip(few, more, strict=True):
        assert set(one.rows) < set(other.rows)


def test_the_model_is_told_with_presets_and_colourings(page: Page, subject: OfStudy, model: Model) -> None:
    found = page.ask("model", place=place())
    presets = {preset["name"]: preset["mask"] for preset in found["presets"]}
    masks = [subject.results.mask(subject.results.find(f"l0-40-s{seed}")) for seed in (0, 1)]
    assert [presets[f"l0-40-s{seed}"] for seed in (0, 1)] == [room.bits(mask) for mask in masks]
    core = masks[0] & masks[1]
    assert presets["core"] == room.bits(core)
    assert presets["core alone"] == room.bits(Mask(core.heads, np.ones(2)))
    assert presets["all but the core"] == room.bits(Mask(~core.heads, np.ones(2)))
    colours = {colouring["name"]: colouring for colouring in found["colourings"]}
    assert colours["how often kept"]["values"] == pytest.approx(np.mean([m.vector for m in masks], 0).tolist())
    table = subject.tables["ablation"]
    rows = table[(table["dataset"] == "cases") & (table["case"] == "swap") & (table["size"] == 1) & (table["checkpoint"] == 20)]
    assert colours["on swap"]["values"] == pytest.approx(
        rows.set_index("units")["change"][model.units.names].tolist(), abs=1e-6
    )
    does = subject.tables["attention"].drop_duplicates("unit").set_index("unit")["does"]
    assert colours["what it mostly attends to"]["values"] == [does.get(name) for name in model.units.names]
    assert colours["importance"]["values"] is None
    assert found["units"] == vars(model.units)
    assert page.ask("size", **body(masks[0])) == masks[0].sizes(model.units)
    taken = page.ask("speed", **body(masks[0], first=FIRST))
    assert taken["now"] > 0 < taken["full"]


def test_importance_is_computed_where_the_study_has_none(page: Page, subject: OfStudy, model: Model) -> None:
    from corewood.data.labels import gold_classes
    from corewood.prune.importance import importance_scores

    found = page.ask("importance", **body(model.units.full()))
    part = subject.parts(subject_place(), room.LABELLED)[0]
    settings = cw.Importance.model_validate({"ablate": "mean"})
    gold = gold_classes(model.labels, part.split)
    wanted = importance_scores(model, model.units.full(), part.encoded, gold, settings, model.means)
    assert found["values"] == pytest.approx(wanted.tolist(), abs=1e-5)


def test_examples_of_a_case_come_round(page: Page, subject: OfStudy) -> None:
    frame = subject.plan.tasks["task"].splits["cases"].frame
    seen = []
    for number in range(5):
        found = page.ask("example", place=place(), dataset="cases", case="swap", number=number)
        row = frame.iloc[found["example"]]
        assert (found["first"], found["second"], found["gold"]) == (row["first"], row["second"], row["label"])
        assert row["case"] == "swap"
        seen.append(found["example"])
    assert len(set(seen[:4])) == found["of"] == 4
    assert seen[4] == seen[0]
    assert "no case" in page.refused("example", place=place(), dataset="cases", case="../swap", number=0)


def test_what_is_held_does_not_grow(page: Page, model: Model) -> None:
    for number in range(room.ANSWERS + 20):
        page.room.known[number] = np.zeros(2)
    page.ask("answer", **body(a_mask(0, model), first=FIRST))
    assert len(page.room.known) <= room.ANSWERS + 1
    for step in (5, 20, 5, 20):
        page.ask("model", place=place(step))
    assert len(page.room.models) <= room.MODELS
    assert not page.room.worker.waiting


# what is kept


def test_a_mask_is_saved_once_and_a_study_takes_it(page: Page, explored: tuple[Path, OfStudy], model: Model) -> None:
    path, subject = explored
    mask, other = a_mask(7, model), a_mask(8, model)
    asked = {"place": place(), "mask": room.bits(mask), "name": " my mask "}
    found = page.ask("save", **asked)
    assert found["file"] == "small-masks/my mask.json"
    file = path.parent / found["file"]
    assert Mask.load(file) == mask == read_masks(file.parent)["my mask"]
    before = file.read_bytes()
    for name in ("my mask", "MY MASK"):
        assert "already" in page.refused("save", **{**asked, "mask": room.bits(other), "name": name})
    assert file.read_bytes() == before
    for name in ("../out", "a/b", "a\\b", "", ".hidden", "x" * 65, "a.json", "a\0b", "a\nb"):
        assert "cannot be a mask's name" in page.refused("save", **{**asked, "name": name})
    assert [p.name for p in file.parent.iterdir()] == ["my mask.json"]
    (file.parent / "broken.json").write_text("{}")
    assert saved(subject, model.units) == {"my mask": mask}
    assert [one["mask"] for one in page.ask("model", place=place())["saved"]] == [room.bits(mask)]
    (file.parent / "broken.json").unlink()
    spec = small.spec_of(path, "prune.given.path=small-masks")
    assert given.read(spec, subject.plan.checkpoint, path.parent) == {"my mask": mask}


def test_no_link_leads_out_of_the_folder(tmp_path: Path) -> None:
    tiny.checkpoint(tmp_path / "model")
    subject = OneCheckpoint(str(tmp_path / "model"), None, None)
    subject.base, subject.masks = tmp_path / "study", tmp_path / "study" / "masks"
    subject.base.mkdir()
    (tmp_path / "elsewhere").mkdir()
    subject.masks.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(cw.InputError, match="leads out"):
        save(subject, "mine", subject.model.units.full())
    assert not list((tmp_path / "elsewhere").iterdir())
    assert saved(subject, subject.model.units) == {}  # and the page opens


@pytest.mark.parametrize("step", [20, 5])
def test_the_python_gives_the_same_answer(page: Page, model: Model, step: int) -> None:
    texts = {"first": 'The nun said "it\'s \\ here".', "second": SECOND}
    asked = body(a_mask(9, model), step=step, **texts)
    found = page.ask("answer", **asked)
    assert printed(page.ask("python", **asked)["python"]) == pytest.approx(
        dict(zip(model.labels, found["now"], strict=True)), abs=1e-5
    )


def printed(code: str) -> dict[str, float]:
    """What the copied Python says."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "copied", "exec"), {"exploring": exploring})
    return dict(ast.literal_eval(out.getvalue()))


# any classifier, without a study


def test_a_checkpoint_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tiny.checkpoint(Path("mine"), "gpt2", labels=("LABEL_0", "LABEL_1"))
    subject = OneCheckpoint("mine", ("bad", "good"), None)
    asked = {"place": {"task": "", "tuning": 0, "step": 0}, "mask": "1" * 9 + "0", "ablate": "zero", "first": FIRST}
    with exploring.served(subject) as found:
        about = found.ask("subject")
        assert (about["title"], about["stand_ins"]) == ("mine", ["zero"])
        told = found.ask("model", place=asked["place"])
        assert told["cases"] == told["presets"] == told["colourings"] == []
        answer = found.ask("answer", **asked)
        wanted = gated_logits(subject.model, subject.model.units.without("L1.MLP"), "zero", FIRST)
        assert answer["logits"] == pytest.approx(wanted.tolist(), abs=1e-5)
        assert "means" in found.refused("answer", **{**asked, "ablate": "mean"})
        assert found.ask("save", place=asked["place"], mask=asked["mask"], name="one")["file"] == "mine-masks/one.json"
        said = dict(zip(("bad", "good"), answer["now"], strict=True))
        assert printed(found.ask("python", **asked)["python"]) == pytest.approx(said, abs=1e-5)


def test_a_number_is_answered_as_a_number(tmp_path: Path) -> None:
    tiny.checkpoint(tmp_path / "scores", labels=("score",))
    model = cw.load(tmp_path / "scores")
    mask = model.units.without("L0.H1")
    steps = answers.answer(model, [FIRST], mask, "zero", {}, "key")
    found = run(steps)
    assert found["now"] == pytest.approx(gated_logits(model, mask, "zero", FIRST).tolist(), abs=1e-5)
    clicked = run(answers.flips(model, [FIRST], mask, "zero"))
    wanted = gated_logits(model, model.units.full(), "zero", FIRST)[0] - found["now"][0]
    assert clicked["changes"][1] == pytest.approx(wanted, abs=1e-5)
    assert clicked["flips"] == []


def run(steps: Any) -> Any:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
