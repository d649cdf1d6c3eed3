"""Every option changes the answer, all the way from the command line to the stack."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from adviser.advise import advise
from cli.request_options import advice_request_of
from common.settings import Settings
from tests.factories.requests import GIVEN, NOTHING
from tests.factories.universes import Index, snapshot_of

INDEXES = "pypi=https://mirror.example/simple ours=https://ours.example/simple"

NEW, OLD = {"uploaded_at": "2025-06-01T00:00:00Z"}, {"uploaded_at": "2024-06-01T00:00:00Z"}

#: The newer ``lib`` came out before the older one was mended.
INDEX: Index = {
    "app": {
        "3.0rc1": {"requires": ["lib"], **NEW},
        "2.0": {"requires": ["lib"], **NEW},
        "1.0": {"requires": ["lib"], **OLD},
    },
    "lib": {"2.0": OLD, "1.0": NEW},
    "twin": {"2.0": NEW, "1.0 ours": NEW, "0.9": OLD},
    "docs": {"1.0": NEW},
    "check": {"1.0": NEW},
    "lint": {"1.0": NEW},
}
PYPROJECT = """
[project]
name = "it"
version = "1"
dependencies = ["app", "twin"]
optional-dependencies = {more = ["docs"]}

[dependency-groups]
dev = ["lint"]
test = ["check"]
"""
PLAIN = {"app": "2.0", "lib": "2.0", "twin": "2.0"}


@pytest.mark.parametrize(
    ("given", "changes"),
    [
        ({}, {}),
        ({"constraints": ("lib<2",)}, {"lib": "1.0"}),
        ({"exclusions": ("app==2.0",)}, {"app": "1.0"}),
        ({"overrides": ("lib==1.0",)}, {"lib": "1.0"}),
        ({"older_than": "2025-01-01"}, {"app": "1.0", "twin": "0.9"}),
        ({"newer_than": "2025-01-01"}, {"lib": "1.0"}),
        ({"prereleases": ("App",)}, {"app": "3.0rc1"}),
        ({"kind": "testing"}, {"app": "3.0rc1"}),
        ({"indexes": ("ours", "pypi")}, {"twin": "1.0"}),
        ({"extras": ("more",)}, {"docs": "1.0"}),
        ({"groups": ("test",)}, {"check": "1.0"}),
        ({"dev": True}, {"lint": "1.0"}),
    ],
    ids=str,
)
def test_an_option_is_honoured(
    given: dict[str, Any], changes: dict[str, str], tmp_path: Path
) -> None:
    settings = Settings.from_env({"THOTH_HOME": str(tmp_path), "PACKAGE_INDEXES": INDEXES})
    (tmp_path / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    asked = advice_request_of(settings, tmp_path, GIVEN | given)
    requirements = (it.text for it in asked.requirements)
    advice = advise(asked, snapshot_of(INDEX, requirements, asked.environment), NOTHING)
    assert advice.best.versions() == PLAIN | changes
