"""Errors that end a measurement without a result."""

from __future__ import annotations


class Unsupported(Exception):
    """The library, the device or the machine cannot do what was asked: exit code 2."""


class WrongResult(Exception):
    """A library's answer, or the rate that was measured, cannot be true: exit code 1."""
