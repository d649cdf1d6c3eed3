"""Reads files such as those below ``/proc`` and ``/sys``."""

from __future__ import annotations

from pathlib import Path


def text_of(path: Path) -> str:
    """Return the content of ``path``; empty if the file does not exist or cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
