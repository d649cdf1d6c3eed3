"""Every code of an index's faults is explained."""

from __future__ import annotations

import re
from pathlib import Path

from model.errors import IndexFault

ROOT = Path(__file__).parents[4]


def test_every_fault_has_its_line_in_the_reference() -> None:
    text = (ROOT / "docs" / "reference" / "reasons.md").read_text()
    section = text.partition("## What went wrong with an index\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"(?m)^- `(\w+)`:", section)) == set(IndexFault)
