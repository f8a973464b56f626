"""The questions that ask for work of their own; the others come by themselves wherever there is something to compare."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from corewood.spec.base import MOST_DRAWS, MOST_EXAMPLES, MOST_LISTED, MOST_STEPS, Epochs, Seeds, Spec, Step, listed
from corewood.spec.ways import Searches, Way


def step_list(value: object) -> object:
    """All, or which; one stands for a list of one."""
    given = value if isinstance(value, (list, tuple)) else [value]
    if value != "all" and not all(type(step) is int and step >= 0 for step in given):
        raise ValueError("write all, or steps, for instance [0, 500]")
    return value if value == "all" else tuple(given)


# of those that fine-tuning keeps
Steps = Annotated[
    Literal["all"] | tuple[Step, ...], BeforeValidator(step_list, json_schema_input_type=Literal["all"] | Step | list[Step])
]
TOP = re.compile(r"top (\d+)")
CORE, MOST = "core", 6  # a set by its name; heads of which all sets are removed at most: 57 sets


class EffectiveSize(Searches):
    """Checkpoints pruned over a grid of sparsities: the smallest subnetwork that is faithful to each."""

    way: Literal["l0", "importance"] = Field("l0", description="how checkpoints are pruned")
    seeds: Seeds = Field((0, 1, 2), description="of L0; importance has no chance in it")
    checkpoints: Steps = Field("all", description="which of the steps that `fine_tune` keeps")
    margin: float = Field(0.03, gt=0, lt=1, description="how far from the full model is still faithful")
    order: Literal["accuracies", "seeds"] = Field(
        "accuracies", description="average accuracies over seeds first (the paper), or sizes (its code)"
    )
    one_sided: bool = Field(False, description="whether any accuracy above the full model's is faithful (its code)")
    mixed: tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]] = Field(
        (1, 1), description="weights of in domain and challenge in the mixed set; the released code, [1, 2]"
    )

    @model_validator(mode="before")
    @classmethod
    def _grid(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and "threshold" in given:
            raise ValueError("threshold: gives one size, and effective size looks along many; write sparsity: [0.1, 0.2, 0.3]")
        for key in ("without", "with"):
            if isinstance(given, Mapping) and key in given:
                raise ValueError(f"{key}: stands in prune.l0; competing subnetworks are looked for at its sizes")
        if isinstance(given, Mapping) and given.get("way") == "importance":
            own = [key for key in ("seeds", "path", "preset", "settings") if key in given]
            if own:
                raise ValueError(f"{own[0]}: belongs to L0 searches; leave it out with way: importance")
        return given


class Ablations(Spec):
    """Units removed from the full model, one at a time and together."""

    singles: bool = Field(True, description="every head and every MLP alone")
    sets: Annotated[tuple[str, ...], listed(str)] = Field(
        (), description="'core', all of its heads; 'top 3', its heads with the largest effects in all sets; or 'L2.H5 + L3.H7'"
    )
    pairs: bool = Field(False, description="all pairs of the core, and all of its heads at once; needs a way")
    examples: int | None = Field(None, ge=2, le=MOST_EXAMPLES, description="of each dataset, evenly over cases; default: all")
    checkpoints: Steps = Field((), description="steps beside the last one, of those that fine_tune keeps, or all")

    @property
    def top(self) -> int:
        """Of how many heads of the core all sets are wanted; 0 where that was not asked for."""
        return max((int(found[1]) for text in self.sets if (found := TOP.fullmatch(text))), default=0)

    @property
    def named(self) -> tuple[str, ...]:
        """Sets by the names of their units."""
        return tuple(text for text in self.sets if text != CORE and not TOP.fullmatch(text))

    @property
    def of_core(self) -> str:
        """The first key that needs a core; empty where none does."""
        chosen = [text for text in self.sets if text not in self.named]
        return f"sets, {chosen[0]!r}" if chosen else "pairs" if self.pairs else ""

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not (self.singles or self.sets or self.pairs):
            raise ValueError("nothing to remove: leave singles on, or give sets or pairs")
        for text in self.sets:
            found = TOP.fullmatch(text)
            if text.lower().startswith("top") and not (found and 2 <= int(found[1]) <= MOST):
                raise ValueError(f"sets: {text!r}: write 'top 2' to 'top {MOST}'; all sets of so many heads are removed")
        return self


class Attention(Spec):
    """What heads attend to."""

    dataset: str | None = Field(None, description="whose texts; default: the first challenge set")
    examples: int = Field(500, ge=2, le=MOST_EXAMPLES, description="drawn evenly over cases")
    maps: int = Field(2, ge=0, le=MOST_LISTED, description="examples whose maps the report shows, the shortest in focus")
    texts: tuple[Annotated[tuple[str, ...], Field(max_length=2), listed(str, 2, filled=True)], ...] = Field(
        (), description="further examples to map: a text, or a pair of texts, each"
    )
    checkpoints: Steps = Field((), description="steps beside the last one, of those that fine_tune keeps, or all")


class Tickets(Spec):
    """Good subnetworks, and others of exactly their size (LT, section 4.2)."""

    of: Annotated[tuple[Way, ...], listed(Way)] | None = Field(
        None, description="ways whose subnetworks are the good ones; default: importance and magnitude, where there are such"
    )
    random: int = Field(1, ge=0, le=MOST_DRAWS, description="how many random ones of each good one")
    retrain: bool = Field(True, description="judge each after retraining from the pretrained weights, too")
    longer: Annotated[tuple[Epochs, ...], listed(Epochs)] = Field(
        (), description="retrain bad ones for these numbers of epochs as well (appendix D)"
    )
    keep: bool = Field(False, description="keep retrained models in the store, so that they can be exported")
    untrained: bool = Field(False, description="train a randomly initialised model under a random mask (table 2)")
    super_survivors: bool = Field(False, description="units that survive with every seed, and their counterparts (appendix E)")

    @model_validator(mode="after")
    def _trainings(self) -> Self:
        if len(set(self.longer)) < len(self.longer):
            raise ValueError(f"longer: a value stands twice in {list(self.longer)}")
        if not self.retrain and (self.longer or self.untrained):
            raise ValueError("longer and untrained are trainings; they need retrain: true")
        if not self.retrain and self.keep:
            raise ValueError("keep: there is nothing to keep without retrain: true")
        if self.untrained and not self.random:
            raise ValueError("untrained: trains under a random mask; it needs random: 1 or more")
        return self


class Patterns(Spec):
    """What kind of picture each head's attention makes (LT, section 5.2)."""

    examples: int = Field(100, ge=2, le=MOST_EXAMPLES, description="of each task")
    annotated: str | None = Field(None, description="a folder of your own maps (.npy) with labels.csv: file, type")
    pretrained: bool = Field(True, description="look at the model before fine-tuning, too")
    pruned: bool = Field(
        True, description="look at super-survivors in models pruned to them, as the paper does; false: in whole ones"
    )
    maps: int = Field(6000, ge=50, le=1_000_000, description="generated maps that the classifier learns from")
    steps: int = Field(900, ge=1, le=MOST_STEPS, description="of its training")
