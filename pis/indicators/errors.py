"""Errors that end a measurement without a result."""

from __future__ import annotations


class Unsupported(Exception):
    """The library, the device or the machine does not support the request: exit code 2."""


class WrongResult(Exception):
    """The result of a library or the measured rate cannot be correct: exit code 1."""
