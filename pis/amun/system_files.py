"""The small files in which the system tells about itself."""

from __future__ import annotations

from pathlib import Path


def text_of(path: Path) -> str:
    """Content of ``path``, empty where this machine has no such file or does not show it."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
