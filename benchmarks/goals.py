"""Whether a measured value meets its goal, if smaller is better."""

from __future__ import annotations


def verdict(value: float, goal: float) -> str:
    """``met`` if the value is at most the goal, else ``MISSED``."""
    return "met" if value <= goal else "MISSED"
