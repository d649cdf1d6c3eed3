"""Places that commands are given."""

from __future__ import annotations

from pathlib import Path


def absolute_source(source: str) -> str:
    """A local path made absolute, so that it means the same tomorrow; URLs as they are."""
    if "://" in source:
        return source
    return str(Path(source).expanduser().absolute())
