"""YAML without code, without silent losses, and with an end: a small text cannot stand for much."""

from __future__ import annotations

import re
from typing import Any

import yaml

from corewood.untrusted import lone_surrogate

LONGEST = 1_000_000  # characters of a study file
DEEPEST = 40  # lists and mappings inside each other
MOST_VALUES = 100_000  # with each alias counted as all that it stands for
LARGEST = 2**63  # of a whole number
TAG = "tag:yaml.org,2002:"
WHOLE = re.compile(r"[-+]?(0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)$")
BROKEN = re.compile(r"[-+]?(([0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)([eE][-+]?[0-9]+)?|\.(inf|Inf|INF))$|\.(nan|NaN|NAN)$")


def load_yaml(text: str) -> Any:
    """Whatever is wrong with it is a `yaml.YAMLError`, or a TypeError where a mapping or a list is a key."""
    if len(text) > LONGEST:
        raise yaml.YAMLError(f"{len(text):,} characters, and {LONGEST:,} are the most")
    try:
        return yaml.load(text, Loader=Loader)
    except RecursionError:
        raise yaml.YAMLError(f"lists and mappings stand more than {DEEPEST} deep in each other") from None


class Loader(yaml.SafeLoader):
    """Two equal keys are a mistake, where YAML drops the first. A date, 010 (eight) and 1:30 (ninety) are the texts that they
    are."""

    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [(tag, form) for tag, form in forms if tag.removeprefix(TAG) not in ("timestamp", "int", "float")]
        for first, forms in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def get_single_node(self) -> Any:
        """What the text stands for is counted before anything is made of it: nine lines of aliases can be a billion values."""
        node = super().get_single_node()
        if node is not None and values_in(node, {}) > MOST_VALUES:
            raise wrong(node, f"aliases make it stand for more than {MOST_VALUES:,} values")
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if key_node.tag == f"{TAG}merge":
                continue
            key = self.construct_object(key_node, deep=True)  # type: ignore[no-untyped-call]
            if isinstance(key, (str, int, float)) and key in seen:
                raise wrong(key_node, f"key {key!r} stands twice")
            seen.add(key)
        return super().construct_mapping(node, deep)

    def number(self, node: yaml.ScalarNode) -> int | float:
        make = self.construct_yaml_int if node.tag.endswith(":int") else self.construct_yaml_float
        try:
            made: int | float = make(node)  # type: ignore[no-untyped-call]
        except (ValueError, OverflowError):
            made = LARGEST  # a number of thousands of digits, or 1_e
        if isinstance(made, int) and abs(made) >= LARGEST:
            raise wrong(node, "a number that is too large, or none; put a text in quotes")
        return made

    def text(self, node: yaml.ScalarNode) -> str:
        made = str(self.construct_scalar(node))
        if lone_surrogate(made):
            raise wrong(node, "half a character (\\uD800 to \\uDFFF); write the whole character")
        return made


Loader.add_implicit_resolver(f"{TAG}int", WHOLE, list("-+0123456789"))
Loader.add_implicit_resolver(f"{TAG}float", BROKEN, list("-+0123456789."))
Loader.add_constructor(f"{TAG}int", Loader.number)
Loader.add_constructor(f"{TAG}float", Loader.number)
Loader.add_constructor(f"{TAG}str", Loader.text)


def wrong(node: yaml.Node, what: str) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, what, node.start_mark)


def values_in(node: yaml.Node, known: dict[int, int], depth: int = 1) -> int:
    """Of a node and all below it; `known` holds those that were counted, by their identity, 0 while they are being counted."""
    if isinstance(node, yaml.ScalarNode):
        return 1
    if depth > DEEPEST:
        raise wrong(node, f"lists and mappings stand more than {DEEPEST} deep in each other")
    if id(node) not in known:
        known[id(node)] = 0
        inside = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
        known[id(node)] = 1 + sum(values_in(part, known, depth + 1) for part in inside)
    elif not known[id(node)]:
        raise wrong(node, "a list or a mapping that holds itself")
    return known[id(node)]
