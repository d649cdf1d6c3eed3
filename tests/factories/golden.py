"""Texts beside which a golden file lies; ``THOTH_WRITE_GOLDEN=1`` writes the files again.

Read the difference before you keep it.
"""

import os
from collections.abc import Mapping
from pathlib import Path

DATA = Path(__file__).parents[1] / "data"


def compare_with_golden(name: str, text: str) -> None:
    """Check that a text is that of the file of this name in ``tests/data``."""
    path = DATA / name
    if os.environ.get("THOTH_WRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text.splitlines() == path.read_text(encoding="utf-8").splitlines()


def compare_views(name: str, views: Mapping[str, str]) -> None:
    """Check texts by their titles; spaces at the ends of lines do not count."""
    blocks = (
        "\n".join([f"=== {title}", *(line.rstrip() for line in view.splitlines()), ""])
        for title, view in views.items()
    )
    compare_with_golden(f"views/{name}.txt", "\n".join(blocks))
