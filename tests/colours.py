"""Colours as readers with deuteranopia see them (Machado, Oliveira and Fernandes, 2009), and how far they are apart."""

from __future__ import annotations

import re

import numpy as np

DEUTERANOPIA = np.array(
    [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
)  # of linear RGB, severity 1
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = np.array([0.95047, 1.0, 1.08883])


def seen(colour: str) -> np.ndarray:
    """#rrggbb, rgb(r, g, b) or white -> linear RGB as it is seen."""
    if colour == "white":
        colour = "#ffffff"
    parts = re.findall(r"\d+", colour) if colour.startswith("rgb") else [str(int(colour[i : i + 2], 16)) for i in (1, 3, 5)]
    value = np.array([int(part) / 255 for part in parts[:3]])
    linear = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)
    return np.asarray(np.clip(DEUTERANOPIA @ linear, 0, 1))


def contrast(one: str, other: str) -> float:
    """Of WCAG: 1 for equal luminance, 21 for black on white; 3 is asked of marks."""
    low, high = sorted(float((TO_XYZ @ seen(colour))[1]) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def difference(one: str, other: str) -> float:
    """Of CIELAB, 1976: 2 can just be seen side by side, 20 is another colour."""
    return float(np.linalg.norm(lab(one) - lab(other)))


def lab(colour: str) -> np.ndarray:
    x, y, z = np.where((t := TO_XYZ @ seen(colour) / WHITE) > 0.008856, np.cbrt(t), 7.787 * t + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])
