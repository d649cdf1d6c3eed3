"""The reference page says what snapshots are made of."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from model.packages.candidates import ExclusionReason
from model.packages.snapshot import Snapshot

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "snapshot.md"


def section(title: str) -> str:
    return PAGE.read_text(encoding="utf-8").partition(f"## {title}\n")[2].partition("\n## ")[0]


def codes(text: str) -> set[str]:
    return set(re.findall(r"(?m)^- `([^`]+)`", text))


def test_every_reason_has_its_line_and_every_line_its_reason() -> None:
    assert codes(section("Why a version is excluded")) == {*ExclusionReason}


def test_every_field_is_explained() -> None:
    assert codes(section("Content")) == {it.name for it in dataclasses.fields(Snapshot)}
