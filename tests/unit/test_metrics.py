from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import rel_entr, softmax
from statsmodels.stats.proportion import proportion_confint

from corewood.data.labels import describe, fold_classes
from corewood.data.task import Split
from corewood.errors import InputError
from corewood.evaluate.metrics import accuracy, kl, predicted, wilson

THREE = ("contradiction", "entailment", "neutral")  # an order that is not the usual one
HANS = Split(
    "hans",
    pd.DataFrame(
        {
            "first": ["a"] * 4,
            "second": ["b"] * 4,
            "label": ["entailment", "non-entailment", "non-entailment", "entailment"],
            "case": ["x", "x", "y", "y"],
        }
    ),
    ("entailment", "non-entailment"),
    {"neutral": "non-entailment", "contradiction": "non-entailment"},
)


@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_equals_statsmodels(pair: tuple[int, int]) -> None:
    correct, n = pair
    assert wilson(correct, n) == pytest.approx(proportion_confint(correct, n, method="wilson"), abs=1e-12)


def test_kl_equals_scipy() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 7, 3)) * 3
    assert kl(a, b) == pytest.approx(rel_entr(softmax(a, -1), softmax(b, -1)).sum(-1))
    assert kl(a, a) == pytest.approx(np.zeros(7))


def test_three_classes_count_as_two_after_the_argmax() -> None:
    fold = fold_classes(THREE, HANS)
    assert fold.tolist() == [1, 0, 1]
    # neutral and contradiction together have more mass than entailment, but entailment is the largest of the three
    logits = np.log([[0.3, 0.4, 0.3], [0.3, 0.3, 0.4], [0.5, 0.3, 0.2], [0.1, 0.2, 0.7]])
    assert predicted(logits, fold).tolist() == [0, 1, 1, 1]
    table = accuracy(logits, HANS, THREE).set_index("case")
    assert table.loc["all", ["n", "correct", "value"]].tolist() == [4, 3, 0.75]
    assert table.loc["x", "value"] == 1.0
    assert table.loc["y", "value"] == 0.5
    assert table.loc["all", "gold"] == "mixed"


def test_agreement_is_with_the_full_model_not_with_the_truth() -> None:
    wrong = np.tile([[9.0, 0.0, 0.0]], (4, 1))
    table = accuracy(wrong, HANS, THREE, full=wrong + 1.0).set_index("case")
    assert table.loc["all", "agreement"] == 1.0
    assert table.loc["all", "kl"] == pytest.approx(0.0)
    assert table.loc["all", "value"] == 0.5


def test_labels_match_by_name_whatever_their_spelling() -> None:
    assert fold_classes(("ENTAILMENT", "non_entailment"), Split("s", HANS.frame, HANS.labels)).tolist() == [0, 1]
    assert fold_classes(("Non-Entailment", "Entailment"), Split("s", HANS.frame, HANS.labels)).tolist() == [1, 0]
    assert describe(THREE, HANS) == "0 contradiction -> non-entailment, 1 entailment, 2 neutral -> non-entailment"


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (("LABEL_0", "LABEL_1"), "set model.labels to the names in the order of the logits"),
        (("entailment", "other"), "the model's 'other' is no label here"),
        (("entailment",), "no class of the model .* counts as 'non-entailment'"),
    ],
)
def test_an_ambiguous_order_is_refused(classes: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        fold_classes(classes, Split("s", HANS.frame, HANS.labels))
