from __future__ import annotations

import numpy as np
import pytest
import tiny
import torch

import corewood as cw
from corewood.data.overlap import overlap
from corewood.spec import Ablation

TASK = overlap(train=120, validation=30, per_case=3)


def test_predictions_of_a_pack_equal_a_loop_of_single_examples() -> None:
    model = tiny.model()
    means = cw.mean_activations(model, TASK.validation)
    rng = np.random.default_rng(0)
    masks = [model.units.from_vector(rng.random(10) < 0.6) for _ in range(3)]
    found = cw.predict(model, masks, TASK.challenge["cases"])
    frame = TASK.challenge["cases"].frame
    assert found.logits.shape == (3, len(frame), 2)
    with torch.no_grad():
        for m, mask in enumerate(masks):
            for i in (0, 7, len(frame) - 1):
                batch = model.tokenizer(frame["first"][i], frame["second"][i], return_tensors="pt")
                with cw.gated(model, mask, means=means):
                    assert found[m][i] == pytest.approx(model.net(**batch).logits[0].numpy(), abs=1e-4)
    table = found.accuracy()
    assert set(table["subnetwork"]) == {-1, 0, 1, 2}
    gold = TASK.challenge["cases"].gold
    assert table[(table["subnetwork"] == 1) & (table["case"] == "all")]["value"].iloc[0] == (found[1].argmax(-1) == gold).mean()
    assert "accuracy" in found._repr_html_()


def test_the_library_from_load_to_core() -> None:
    """The names the design promises, one after the other."""
    model = tiny.model()
    masks = cw.search(model, TASK, cw.L0(sparsity=0.5, steps=5, batch=8), seeds=range(3))
    assert [len(m) for m in masks] == [5, 5, 5]
    assert len(masks.trajectories) == 3
    found = cw.core(masks)
    assert len(found.heads) <= 5
    assert "chance" in repr(found)
    assert len(cw.agreement(masks)) == 3
    with cw.gated(model, masks[0]) as inside:
        assert inside is model
    assert cw.predict(model, masks, TASK.validation).logits.shape == (3, 30, 2)


@pytest.mark.parametrize("ablate", ["mean", "zero", "resample"])
def test_every_ablation_can_be_evaluated(ablate: Ablation) -> None:
    model = tiny.model()
    cw.mean_activations(model, TASK.validation)
    found = cw.predict(model, ~model.units.full(), TASK.validation, ablate)
    assert np.isfinite(found.logits).all()
    assert not np.allclose(found.logits[0], found.full)
