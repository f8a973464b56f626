from __future__ import annotations

from pathlib import Path

import pytest

from corewood.errors import InputError, StudyError
from corewood.spec import L0, FineTune, GlueTask, Searches, StudySpec, kept_units, parse_study, read_study
from corewood.store.store import digest

ROOT = Path(__file__).parents[2]
GOOD = """
name: mine
model: some/folder
task:
  validation: {path: dev.csv, text: [a, b], label: gold}
prune: {l0: {sparsity: 0.5}}
"""


def mistakes(text: str) -> str:
    with pytest.raises(StudyError) as caught:
        parse_study(text, "mine.yaml")
    return str(caught.value)


def searches_of(spec: StudySpec) -> Searches:
    assert spec.prune.l0 is not None
    return spec.prune.l0


def test_a_small_study_is_enough() -> None:
    spec = parse_study(GOOD, "mine.yaml")
    assert spec.model.checkpoint == "some/folder"
    assert searches_of(spec).seeds == (0, 1, 2, 3, 4, 5)
    assert searches_of(spec).sparsity == (0.5,)
    assert spec.fine_tune is None


@pytest.mark.parametrize("path", sorted((ROOT / "studies").glob("*.yaml")), ids=lambda p: p.name)
def test_every_shipped_study_loads_and_says_what_it_is(path: Path) -> None:
    assert read_study(path).name == path.stem
    assert path.read_text(encoding="utf-8").startswith("#")


def test_all_mistakes_are_shown_together_with_the_nearest_name() -> None:
    message = mistakes(
        GOOD.replace("label: gold", "lable: gold").replace("sparsity: 0.5", "sparsity: 1.5, seedz: 3")
        + "fine_tun: {steps: 3}\n"
    )
    assert "mine.yaml: 4 mistakes" in message
    assert "task.validation.lable: unknown key. Did you mean 'label'?" in message
    assert "prune.l0.seedz: unknown key. Did you mean 'seeds'?" in message
    assert "fine_tun: unknown key. Did you mean 'fine_tune'?" in message
    assert "fraction of units removed and must lie between 0 and 1" in message


@pytest.mark.parametrize("sparsity", ["0", "1", "-0.5", "50", "[0.5, 1.0]"])
def test_sparsity_outside_the_open_interval(sparsity: str) -> None:
    assert "must lie between 0 and 1" in mistakes(GOOD.replace("0.5", sparsity))


def test_unknown_key_without_a_near_name_lists_what_is_allowed() -> None:
    assert "Allowed here: name, title, model, task" in mistakes(GOOD + "zzz: 1\n")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("model: some/folder", "model: missing"),
        ("path: dev.csv, ", "exactly one of 'path'"),
        ("name: mine", "name: missing"),
    ],
)
def test_missing_parts_are_named(change: str, message: str) -> None:
    assert message in mistakes(GOOD.replace(change, ""))


def test_fine_tuning_needs_examples() -> None:
    assert "fine_tune needs task.train" in mistakes(GOOD + "fine_tune: {steps: 10}\n")


def test_yaml_traps() -> None:
    generated = "name: a\nmodel: b\ntask: {generated: overlap}\nprune: {l0: {sparsity: 0.5}}\n"
    tuned = parse_study(generated + "fine_tune: {steps: 9, learning_rate: 1e-5}\n", "x")
    assert tuned.fine_tune is not None
    assert tuned.fine_tune.learning_rate == 1e-5  # YAML reads 1e-5 as text
    source = parse_study(GOOD.replace("label: gold", "label: gold, only: {id: [010, 1:30, 7]}, labels: {01: a}"), "x")
    assert source.task.validation[""].only == {"id": ("010", "1:30", "7")}  # type: ignore[union-attr]
    assert source.task.validation[""].labels == {"01": "a"}  # type: ignore[union-attr]
    assert "put the label in quotes" in mistakes(GOOD.replace("label: gold", "label: gold, labels: {0: no}"))
    assert "stands twice" in mistakes(GOOD + "name: other\n")
    assert "must be a mapping" in mistakes("- a\n- b\n")
    assert "mine.yaml: 1 mistake" in mistakes("{{x}: 1}\n")
    assert parse_study(GOOD.replace("model: some/folder", "model: &m {checkpoint: a}"), "x").model.checkpoint == "a"
    merged = "base: &b {sparsity: 0.5}\n" + GOOD.replace("{sparsity: 0.5}", "{<<: *b, seeds: 2}")
    assert "base: unknown key" in mistakes(merged)
    assert "validation.case: cases belong to challenge sets" in mistakes(GOOD.replace("label: gold", "label: gold, case: c"))


def test_several_validation_sets() -> None:
    one = "{path: dev.csv, text: [a, b], label: gold}"
    several = GOOD.replace(f"validation: {one}", f"validation: {{matched: {one}, other: {one}}}")
    assert several != GOOD
    spec = parse_study(several, "x")
    assert list(spec.task.validation) == ["matched", "other"]  # type: ignore[union-attr]
    assert "other" in spec.model_dump(mode="json")["task"]["validation"]
    assert parse_study(GOOD, "x").model_dump(mode="json")["task"]["validation"]["path"] == "dev.csv"
    wrong = several.replace("other: {path", "other: {pth")
    assert "task.validation.other.pth: unknown key. Did you mean 'path'?" in mistakes(wrong)
    assert "validation.search: no set can be called that" in mistakes(several.replace("other:", "search:"))
    assert "validation.other.case: cases belong" in mistakes(several.replace("label: gold}}", "label: gold, case: c}}"))
    assert "mine.yaml" in mistakes("name: [unclosed\n")


def test_set_changes_one_value() -> None:
    spec = parse_study(GOOD, "x", ["prune.l0.seeds=12", "model.max_length=32", "ablate=zero"])
    assert len(searches_of(spec).seeds) == 12
    assert spec.model.checkpoint == "some/folder"
    assert spec.model.max_length == 32
    with pytest.raises(InputError, match="write it as key=value"):
        parse_study(GOOD, "x", ["prune.l0.seeds"])
    with pytest.raises(StudyError, match="Did you mean 'seeds'"):
        parse_study(GOOD, "x", ["prune.l0.seed=1"])


def test_set_reaches_an_item_of_a_list_by_its_number() -> None:
    study = TUNED + "prune: {l0: {sparsity: 0.5}, importance: [{threshold: 0.8}, {like: l0}]}\n"
    changes = ["prune.importance.0.threshold=0.7", "prune.importance.1={like: l0, batch: 7}"]
    one, other = parse_study(study, "x", changes).prune.importance
    assert (one.threshold, other.batch) == (0.7, 7)
    for key in ("2.threshold", "2", "-1", "threshold"):
        with pytest.raises(InputError, match="is a list in this study; name one of its items by number, 0 to 1"):
            parse_study(study, "x", [f"prune.importance.{key}=0.7"])


def test_a_change_reaches_one_key_and_not_its_aliases() -> None:
    shared = GOOD.replace("  validation: {path", "  train: &source {path").replace("gold}", "gold}\n  validation: *source")
    spec = parse_study(shared, "x", ["task.validation.limit=50"])
    assert spec.task.train[0].limit is None  # type: ignore[union-attr]
    assert spec.task.validation[""].limit == 50  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("{sparsity: 0.5, settings: {steps: 9, budget: 0.5}}", "settings.budget: does nothing without steps: auto"),
        ("{sparsity: 0.5, preset: paper, settings: {rounds: 3}}", "settings.rounds: does nothing without steps: auto"),
        ("{sparsity: 0.5, settings: {threshold: 0.4}}", "settings.threshold: does nothing without final: released"),
        ("{sparsity: 0.5, settings: {measure: sampled}}", "settings.measure: does nothing without constraint: lagrangian"),
        ("{sparsity: [0.3, 0.5], path: true, preset: paper}", "path: needs masks of an exact size, and preset: paper has"),
        ("{sparsity: 0.5 seeds: 3}", "a comma is missing in the mapping {...}"),
        ("{sparsity: 0.5", "the mapping {...} that begins here is not closed"),
    ],
)
def test_what_does_nothing_is_refused(settings: str, message: str) -> None:
    assert message in mistakes(GOOD.replace("{sparsity: 0.5}", settings))


def test_keys_that_belong_elsewhere() -> None:
    assert "revision: is of a hub set, and this is a path" in mistakes(GOOD.replace("label: gold", "label: gold, revision: a"))
    beside = GOOD.replace("l0: {sparsity: 0.5}", "importance: {threshold: 0.9}") + "ablate_beside: [zero]\n"
    assert "ablate_beside: judges the subnetworks of prune.l0" in mistakes(beside)
    assert parse_study(GOOD + "focus: swap\n", "x").focused == ("swap",)


def test_a_missing_study_file_says_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text(GOOD)
    with pytest.raises(InputError, match=r"no such study file\. Did you mean 'good.yaml'"):
        read_study(tmp_path / "god.yaml")


def test_search_settings_are_checked_by_name_and_value() -> None:
    with pytest.raises(ValueError, match="Did you mean 'steps'"):
        Searches(sparsity=0.5, settings={"step": 3})
    with pytest.raises(ValueError, match=r"settings\.steps: .*give a number of steps, 1 or more, or auto, not 0"):
        Searches(sparsity=0.5, settings={"steps": 0})
    with pytest.raises(ValueError, match=r"settings\.step: unknown key.*; settings\.bach: unknown key"):
        Searches(sparsity=0.5, settings={"step": 3, "bach": 2})
    with pytest.raises(ValueError, match=r"a value stands twice in \[1, 1\]"):
        Searches(sparsity=0.5, seeds=(1, 1))
    with pytest.raises(ValueError, match="must be 0 or more"):
        Searches(sparsity=0.5, seeds=(-1,))
    assert Searches(sparsity=0.5, settings={"steps": 7}).runs()[0].steps == 7


@pytest.mark.parametrize(("budget", "starts"), [(2, 2), (1.5, 2), (3.5, 4)])
def test_more_than_a_whole_search_is_more_starts(budget: float, starts: int) -> None:
    said = mistakes(GOOD + f"effective_size: {{sparsity: 0.5, settings: {{budget: {budget}}}}}\n")
    assert "effective_size.settings.budget: is at most 1, a whole search" in said
    assert f"write starts: {starts}" in said
    assert "Value error" not in said
    assert Searches(sparsity=0.5, settings={"budget": 1, "starts": starts}).runs()[0].starts == starts


def test_keys_of_shorter_searches_are_what_they_were() -> None:
    """Digests from before `budget` ended at 1: what a store has must be found again."""
    assert digest(L0(sparsity=0.5).params()) == "2fbda410119aadf2f7fc2d901d921f8f"
    assert digest(L0(sparsity=0.5, budget=0.5).params()) == "95df332371dcd34f336499b3b3dd4d45"


def test_the_papers_budget() -> None:
    paper = L0.paper(0.5)
    assert paper.steps == 9300  # as stated in the methods for 50 %
    assert paper.ramp * paper.steps == pytest.approx(9000)
    assert (paper.batch, paper.start, paper.decay, paper.measure) == (128, 10.0, 0.01, "sampled")
    assert Searches(sparsity=0.7, preset="paper").runs() == [L0.paper(0.7)]


def test_a_sparsity_that_leaves_no_unit_is_refused() -> None:
    assert kept_units(78, 0.5) == 39
    assert kept_units(78, 0.98) == 2
    with pytest.raises(InputError, match=r"leaves none; the largest possible is 0\.9872"):
        kept_units(78, 0.999)


PRESETS = (
    GOOD
    + """
presets:
  small: {prune.l0.seeds: 2, model.max_length: 32}
  large: {prune.l0: {sparsity: [0.3, 0.6]}}
"""
)


def test_presets_apply_in_order_and_before_changes() -> None:
    spec = parse_study(PRESETS, "mine.yaml", ["prune.l0.seeds=4"], ["large", "small"])
    assert searches_of(spec).sparsity == (0.3, 0.6)
    assert searches_of(spec).seeds == (0, 1, 2, 3)
    assert spec.model.max_length == 32
    assert searches_of(parse_study(PRESETS, "mine.yaml")).sparsity == (0.5,)
    with pytest.raises(InputError, match=r"no preset 'smal'. Did you mean 'small'\?"):
        parse_study(PRESETS, "mine.yaml", None, ["smal"])
    with pytest.raises(InputError, match="It has none"):
        parse_study(GOOD, "mine.yaml", None, ["small"])
    assert "presets: must be a mapping" in mistakes(GOOD + "presets: [a]\n")


def test_a_path_is_one_search_with_the_others_on_the_way() -> None:
    spec = Searches(sparsity=(0.6, 0.2, 0.4), path=True)
    (run,) = spec.runs()
    assert run.targets == (0.2, 0.4, 0.6)
    assert [r.targets for r in Searches(sparsity=(0.6, 0.2)).runs()] == [(0.6,), (0.2,)]
    with pytest.raises(ValueError, match="exact size"):
        Searches(sparsity=(0.6, 0.2), path=True, preset="paper")
    with pytest.raises(ValueError, match="path stands beside settings"):
        Searches(sparsity=0.5, settings={"path": [0.2]})


def test_questions_need_checkpoints_that_are_kept() -> None:
    grid = GOOD.replace("task:", "task:\n  train: {path: t.csv, text: [a, b]}")
    grid += "fine_tune: {steps: 20, checkpoints: [5, 10]}\neffective_size: {sparsity: [0.2], checkpoints: [5, 15]}\n"
    assert "effective_size.checkpoints: step 15 is not kept; kept are 5, 10, 20. Add it to fine_tune.checkpoints" in mistakes(
        grid
    )
    assert parse_study(grid.replace("[5, 15]", "[5, 20]"), "mine.yaml").effective_size is not None
    assert "effective_size.sparsity" in mistakes(grid.replace("[0.2]", "[1.2]"))
    for key in ("ablations", "attention"):
        asked = grid.replace("effective_size: {sparsity: [0.2], checkpoints: [5, 15]}", f"{key}: {{checkpoints: [0]}}")
        assert f"{key}.checkpoints: step 0 is not kept; kept are 5, 10, 20. Add it to fine_tune.checkpoints" in mistakes(asked)
        kept = parse_study(asked.replace("[5, 10]", "[0, 5]"), "mine.yaml")
        assert getattr(kept, key).checkpoints == (0,)
        assert getattr(parse_study(asked.replace("[0]", "all"), "mine.yaml"), key).checkpoints == "all"
    as_it_is = parse_study(
        GOOD + "attention: {checkpoints: [0]}\n", "mine.yaml"
    )  # one checkpoint, which is no step of a training
    assert as_it_is.attention is not None
    assert "attention.checkpoints: step 5 is not kept; kept are 0." in mistakes(GOOD + "attention: {checkpoints: [5]}\n")


def test_sets_that_a_study_chooses_itself() -> None:
    wanted = parse_study(GOOD + "ablations: {sets: [core, top 3, top 2, L0.H1 + L1.H2]}\n", "mine.yaml").ablations
    assert wanted is not None
    assert (wanted.top, wanted.named) == (3, ("L0.H1 + L1.H2",))
    alone = parse_study(GOOD + "ablations: {sets: core}\n", "mine.yaml").ablations
    assert alone is not None
    assert (alone.sets, alone.top, alone.named) == (("core",), 0, ())
    for given in ("top 1", "top 7", "top three", "Top3"):
        text = mistakes(GOOD + f"ablations: {{sets: [{given}]}}\n")
        assert f"ablations.sets: '{given}': write 'top 2' to 'top 6'; all sets of so many heads are removed" in text
    none = GOOD[: GOOD.index("prune:")] + "ablations: {sets: [L0.H0 + L0.H1, top 2]}\n"
    assert "ablations.sets, 'top 2': is about the core, and no way looks for one; add prune.l0" in mistakes(none)
    assert "ablations.pairs: is about the core" in mistakes(none.replace("sets: [L0.H0 + L0.H1, top 2]", "pairs: true"))


def test_every_study_of_the_project_is_valid_with_every_preset() -> None:
    import yaml

    for path in sorted((ROOT / "studies").glob("*.yaml")):
        presets = list((yaml.safe_load(path.read_text(encoding="utf-8")) or {}).get("presets", {}))
        for chosen in [[], *([p] for p in presets), presets]:
            assert read_study(path, None, chosen).title


def test_what_ablations_and_attention_refuse() -> None:
    assert "nothing to remove" in mistakes(GOOD + "ablations: {singles: false}\n")
    assert "attention.texts" in mistakes(GOOD + "attention: {texts: [[a, b, c]]}\n")
    spec = parse_study(GOOD + "attention: {texts: [One text., [a, b]]}\n", "mine.yaml")
    assert spec.attention is not None
    assert spec.attention.texts == (("One text.",), ("a", "b"))
    with pytest.raises(InputError, match="It has: 2024"):
        parse_study(GOOD + "presets: {2024: {seed: 1}}\n", "mine.yaml", None, ["small"])


GLUE = "name: a\nmodel: b\ntask: {glue: GLUE}\nprune: {l0: {sparsity: 0.5}}\n"


def test_a_set_of_glue_in_a_study() -> None:
    spec = parse_study(GLUE.replace("GLUE", "rte, folder: data/RTE, train_limit: 9"), "x", ["task.validation_limit=5"])
    assert isinstance(spec.task, GlueTask)
    assert (spec.task.name, spec.task.metric, spec.task.validation_limit) == ("rte", "accuracy", 5)
    assert parse_study(GLUE.replace("GLUE", "rte") + "fine_tune: {steps: 3}\n", "x").fine_tune is not None
    assert "task.glue: must be 'cola', 'sst2'" in mistakes(GLUE.replace("GLUE", "glu"))
    assert "task.foldr: unknown key. Did you mean 'folder'?" in mistakes(GLUE.replace("GLUE", "rte, foldr: x"))
    assert "task.revision: belongs to the hub set" in mistakes(GLUE.replace("GLUE", "rte, folder: x, revision: y"))
    assert "task.generated: must be 'overlap'" in mistakes(GLUE.replace("glue: GLUE", "generated: overlop"))
    wrong = "task.challenge.files.lable: unknown key. Did you mean 'label'?"
    assert wrong in mistakes(GLUE.replace("GLUE", "rte, challenge: {files: {path: x, layout: rte, lable: y}}"))


def test_a_study_of_before_is_refused_with_the_new_spelling_of_each_key() -> None:
    core = GOOD.replace("prune: {l0: {sparsity: 0.5}}", "search: {sparsity: 0.5}\nfine_tune: {steps: 3, seed: 7}")
    said = mistakes(core)
    assert "search: is prune.l0 now" in said
    assert "fine_tune.seed: is a list now; write seeds: [7]" in said
    lottery = "kind: lottery\nseeds: [1]\nbudgets: {}\nimportance: {}\nmagnitude: {}\nmethods: {sparsity: 0.5}\n"
    said = mistakes(GOOD + lottery)
    for new in (
        "leave it out",
        "fine_tune.seeds",
        "fine_tune.tasks",
        "prune.importance now",
        "prune.magnitude now",
        "{like: l0}",
    ):
        assert new in said
    with pytest.raises(StudyError, match=r"search: is prune\.l0 now"):
        parse_study(GOOD, "x", ["search.seeds=3"])


TUNED = "name: a\nmodel: b\ntask: {generated: overlap}\nfine_tune: {steps: 9}\n"


@pytest.mark.parametrize(
    ("study", "said"),
    [
        (GOOD + "tasks: {b: {generated: overlap}}\n", "give exactly one of 'task' and 'tasks'"),
        (TUNED, "nothing to do: give prune a way"),
        (TUNED + "ablations: {pairs: true}\n", "no way looks for one; add prune.l0"),
        (GOOD + "tickets: {of: l0}\n", "this checkpoint is taken as it is; add fine_tune, or set tickets.retrain: false"),
        (TUNED + "prune: {l0: {sparsity: 0.5}}\ntickets: {}\n", "add prune.importance, prune.magnitude, or of: l0"),
        (TUNED + "prune: {l0: {sparsity: 0.5}}\ntickets: {of: importance}\n", "importance is not among the ways"),
        (TUNED + "prune: {importance: {like: l0}}\n", "l0 is not among the ways; add prune.l0"),
        (TUNED + "prune: {importance: {threshold: 0.9, sparsity: 0.5}}\n", "give only one of threshold and sparsity"),
        (TUNED + "prune: {importance: [{threshold: 0.9}, {sparsity: 0.5}]}\n", "only one of its settings can be without like"),
        (TUNED + "prune: {random: {like: magnitude}}\n", "magnitude is not among the ways"),
        (TUNED + "effective_size: {way: importance, threshold: 0.9}\n", "write sparsity: [0.1, 0.2, 0.3]"),
        (TUNED + "effective_size: {way: importance, sparsity: 0.5, path: true}\n", "path: belongs to L0 searches"),
        (TUNED.replace("steps: 9", "steps: 9, tasks: {b: {steps: 3}}"), "fine_tune.tasks.b: there is no such task"),
        (TUNED.replace("steps: 9", "steps: 9, tasks: {overlap: {seeds: 3}}"), "is no setting of one task's training"),
    ],
)
def test_what_means_nothing_is_refused_with_the_reason(study: str, said: str) -> None:
    assert said in mistakes(study)


def test_a_task_may_have_a_budget_of_its_own() -> None:
    study = TUNED.replace("steps: 9", "epochs: 2, batch: 8, seeds: 3, tasks: {overlap: {steps: 5, checkpoints: [2]}}")
    spec = parse_study(study + "prune: {l0: {sparsity: 0.5}}\n", "x")
    assert spec.fine_tune is not None
    assert spec.fine_tune.seeds == (0, 1, 2)
    own = spec.fine_tune.of("overlap", 2)
    assert (own.steps, own.epochs, own.batch, own.seed, own.kept) == (5, None, 8, 2, (2, 5))
    assert spec.fine_tune.of("another").epochs == 2


def test_a_way_with_two_settings_is_a_list() -> None:
    study = TUNED + "prune: {l0: {sparsity: 0.5}, importance: [{threshold: 0.8}, {like: l0}]}\n"
    one, other = parse_study(study, "x").prune.importance
    assert (one.stand_in, other.stand_in) == ("zero", "mean")
    wrong = mistakes(study.replace("threshold: 0.8", "threshold: 2"))
    assert "prune.importance.0.threshold: must be 1 or less" in wrong
    assert "prune.importance.threshold: must be 1 or less" in mistakes(TUNED + "prune: {importance: {threshold: 2}}\n")


@pytest.mark.parametrize(
    ("examples", "epochs", "batch", "steps"),
    [(8551, 3, 32, 802), (64, 1, 32, 2), (65, 1, 32, 3), (100, 1.1, 10, 11), (10, 0.01, 32, 1), (2490, 0.5, 32, 39)],
)
def test_epochs_become_steps(examples: int, epochs: float, batch: int, steps: int) -> None:
    settings = FineTune.model_validate({"epochs": epochs, "batch": batch, "seed": 4}).resolved(examples)
    assert settings == FineTune.model_validate({"steps": steps, "batch": batch, "seed": 4})
    assert settings.kept == (steps,)


def test_steps_or_epochs_and_not_both() -> None:
    for both in ({}, {"steps": 3, "epochs": 1}):
        with pytest.raises(ValueError, match="give exactly one of 'steps' and 'epochs'"):
            FineTune.model_validate(both)
    given = FineTune.model_validate({"steps": 7, "checkpoints": [3]})
    assert given.resolved(1000) is given
    long = FineTune.model_validate({"epochs": 2, "batch": 10, "checkpoints": [5, 30]})
    assert long.resolved(150).kept == (5, 30)
    with pytest.raises(InputError, match=r"checkpoints: \[30\] lie beyond the last step, 20 \(2 epochs of 100 examples, 10 in"):
        long.resolved(100)
    with pytest.raises(InputError, match=r"resolved\(examples\) counts them"):
        _ = long.kept


def test_epochs_in_a_study_with_a_grid() -> None:
    study = GLUE.replace("glue: GLUE", "generated: overlap") + "fine_tune: {epochs: 2, checkpoints: [5]}\n"
    grid = "effective_size: {sparsity: [0.2], checkpoints: [5]}\n"
    assert parse_study(study + grid, "x").effective_size is not None
    assert "step 9 is not kept; kept are 5, the last one. Add it to" in mistakes(study + grid.replace("[5]", "[9]"))
    assert "fine_tune: give exactly one of" in mistakes(study.replace("epochs: 2, ", ""))


def test_the_order_of_checkpoints_makes_no_other_training() -> None:
    assert FineTune(steps=9, checkpoints=(6, 0)) == FineTune(steps=9, checkpoints=(0, 6))
