"""What is wrong with a value, in the words of a study file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from corewood.errors import nearest
from corewood.untrusted import shortened

# by pydantic's kind of mistake; {...} is what its context says
WRONG = {
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float", "int_parsing_size"), "must be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number"),
    "finite_number": "must be a finite number",
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    "string_type": "must be a text; put it in quotes",
    "literal_error": "must be {expected}",
    **dict.fromkeys(("tuple_type", "list_type"), "must be a list, as [one, other]"),
    **dict.fromkeys(
        ("dict_type", "mapping_type", "model_type", "model_attributes_type"), "must be keys with values, as {example}"
    ),
    "greater_than": "must be more than {gt:g}",
    "greater_than_equal": "must be {ge:g} or more",
    "less_than": "must be less than {lt:g}",
    "less_than_equal": "must be {le:g} or less",
    "too_short": "needs at least {min_length}, not {actual_length}",
    "too_long": "takes at most {max_length}, not {actual_length}",
    "string_too_long": "takes at most {max_length} characters",
    "string_unicode": "holds half a character (a lone surrogate); write the whole character",
    "invalid_key": "keys are texts; put it in quotes",
}
# what stands in for a mapping, by its class
EXAMPLES = {
    "ModelSpec": "{checkpoint: path/to/model}, or a name alone",
    "SourceSpec": "{path: file.csv, text: [premise, hypothesis], label: label}",
    "FilesTask": "{validation: {path: dev.csv, text: text, label: label}}",
    "Tuning": "{steps: 3000, seeds: 3}",
    "Prune": "{l0: {sparsity: 0.5}}",
    **dict.fromkeys(("Searches", "Competing"), "{sparsity: [0.5, 0.7], seeds: 6}"),
    "EffectiveSize": "{sparsity: [0.2, 0.4, 0.6], seeds: 3}",
    "Importance": "{threshold: 0.9}",
    "Magnitude": "{threshold: 0.9}",
    "Random": "{like: l0}",
    "Given": "{path: masks/}",
    "CoreAlone": "{draws: 3}",
    "Ablations": "{pairs: true}",
    "Attention": "{examples: 500}",
    "Tickets": "{random: 1}",
    "Patterns": "{examples: 100}",
}
# what a pattern asks for
FORMS = {
    "auto|cpu": "must be auto, cpu, mps, cuda or cuda:NUMBER",
    "A-Za-z0-9": "may hold letters, digits, dots, hyphens and underscores, and begins with a letter or digit",
}
Place = tuple[int | str, ...]


def by_key(
    problem: ValidationError,
    raw: Any,
    say: Callable[[Any, str], tuple[str, str]] | None = None,
    tag_place: Callable[[Place], int | None] = lambda place: None,
) -> list[tuple[str, str]]:
    """(key as the file has it, what is wrong) of each mistake in `raw`. What a value could have been instead is one mistake.

    `say` gives the same of one error and its key; `tag_place` says where a place holds the kind of a thing, which is no key.
    """
    told: dict[str, list[tuple[str, str]]] = {}  # key that has alternatives, or the key itself -> mistakes
    errors = problem.errors(include_url=False)
    strange = [error["loc"] for error in errors if error["type"] == "extra_forbidden"]
    for error in errors:
        if error["type"] == "missing" and misspelt(error["loc"], strange):
            continue
        *parts, choice = as_written(error, raw, tag_place(error["loc"]))
        key = ".".join(map(str, parts))
        mistake = say(error, key) if say else (key, wrong(error))
        told.setdefault(f"choice {choice}" if choice is not None else "", []).append(mistake)
    plain = told.pop("", [])
    return plain + [one_of(alternatives) for alternatives in told.values()]


def misspelt(place: Place, strange: Sequence[Place]) -> bool:
    """Whether an unknown key beside it is nearly this one, which then is not missing, too."""
    return any(at[:-1] == place[:-1] and nearest(str(at[-1]), [str(place[-1])]) for at in strange)


def one_of(alternatives: list[tuple[str, str]]) -> tuple[str, str]:
    """The one that fits best is wrong furthest inside; of several such, what any of them asks for."""
    key = max((key for key, _ in alternatives), key=len)
    first, *others = dict.fromkeys(what for where, what in alternatives if where == key)
    shown = first.partition(" (given")[0] if others else first
    return key, " or ".join([shown, *(other.removeprefix("must be ") for other in others)])


def as_written(error: Any, raw: Any, tag: int | None) -> Iterator[str | None]:
    """The place of a mistake as the file has it: without the kind of a thing, and without a 0 or a name where one stands for
    several. Last comes the key whose alternatives were tried, or None."""
    node, choice = raw, None
    seen: list[str] = []
    for place, part in enumerate(error["loc"]):
        if place == tag or part in ("", "[key]") or (isinstance(part, int) and not isinstance(node, (list, tuple))):
            continue
        last = place == len(error["loc"]) - 1
        inside = isinstance(part, int) or (isinstance(node, Mapping) and part in node)
        if not inside and not (last and error["type"] in ("missing", "extra_forbidden")):
            choice = ".".join(seen) if choice is None else choice  # what pydantic calls one of the alternatives
            continue
        seen.append(str(part))
        yield str(part)
        try:
            node = node[part]
        except (KeyError, IndexError, TypeError):
            node = None
    yield choice


def wrong(error: Any) -> str:
    """One pydantic error without its place: what is asked for, and what was given."""
    kind, context = error["type"], error.get("ctx", {})
    if kind in WRONG:
        said = WRONG[kind].format(**{**context, "example": EXAMPLES.get(context.get("class_name", ""), "{key: value}")})
    elif kind == "string_pattern_mismatch":
        said = next((form for part, form in FORMS.items() if part in context["pattern"]), "has a form that is not allowed")
    else:
        said = error["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    return said + given(error["input"], context.get("expected", ""))


def given(value: object, expected: str = "") -> str:
    if isinstance(value, bool):
        return f" (given: {str(value).lower()})"
    if not isinstance(value, (str, int, float)):
        return ""
    near = nearest(value, expected.replace("'", "").replace(" or ", ", ").split(", ")) if isinstance(value, str) else ""
    shown = shortened(repr(value))
    return f" (given: {shown}).{near}" if near else f" (given: {shown})"


def wrong_yaml(problem: Exception, text: str) -> str:
    """A file that is no YAML: which line, what is wrong with it, and the line."""
    if isinstance(problem, TypeError):
        return "a list or a mapping stands where a key should; put it in quotes"
    mark = getattr(problem, "problem_mark", None) or getattr(problem, "context_mark", None)
    if mark is None:  # a character that YAML does not allow
        return " ".join(str(problem).split()).replace(' in "<unicode string>",', ",")
    begun = getattr(problem, "context_mark", None) or mark
    said, context = str(getattr(problem, "problem", "")), str(getattr(problem, "context", "") or "")
    where = mark
    if "mapping values are not allowed" in said:
        said = "a colon where none can stand; look at the indentation, and put a text that holds ': ' in quotes"
    elif "'\\t'" in said:
        said = "a tab; indent with spaces"
    elif "flow" in context or "quoted scalar" in context:
        what = {"flow sequence": "list [...]", "flow mapping": "mapping {...}"}
        name = next((name for part, name in what.items() if part in context), "quoted text")
        if "expected ','" in said and "<stream end>" not in said and "<block" not in said:
            said = f"a comma is missing in the {name}, or it should have ended"
        else:
            where, said = begun, f"the {name} that begins here is not closed"
    elif "undefined alias" in said:
        said = f"{said.removeprefix('found ')}; give it before, with &"
    elif "could not determine a constructor" in said:
        said = "a YAML tag (!...) that a study file does not take"
    line = (text.splitlines() or [""])[min(where.line, len(text.splitlines()) - 1)].strip()
    return f"line {where.line + 1}{f', “{shortened(line)}”' if line else ''}: {said}"
