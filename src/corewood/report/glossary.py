"""The words of a report, and how to read its charts: plain texts, for docs/ and for whatever shows a word with its meaning."""

from __future__ import annotations

from importlib.resources import files

import yaml


def texts(name: str) -> dict[str, str]:
    return dict(yaml.safe_load(files("corewood.report").joinpath(name).read_text(encoding="utf-8")))


GLOSSARY = texts("glossary.yaml")  # term -> what it means
READING = texts("reading.yaml")  # name of an item of the report -> an example of what is to be seen in it
