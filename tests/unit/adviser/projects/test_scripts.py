"""Inline metadata of Python scripts (PEP 723)."""

from __future__ import annotations

import pytest

from adviser.projects.parsing import parse_project
from model.errors import InvalidFile
from tests.factories.errors import raised

SCRIPT = """#!/usr/bin/env python
# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "requests<3",
#
#   "rich ; os_name == 'posix'",
# ]
# [tool.uv]
# exclude-newer = "2026-01-31T00:00:00Z"
# ///
import requests
"""


@pytest.mark.parametrize(
    "text", ["import requests\n", SCRIPT + SCRIPT, "# /// script\n# dependencies = [\n# ///\n"]
)
def test_a_script_without_one_valid_block_is_refused(text: str) -> None:
    with raised(InvalidFile, place="tool.py") as caught:
        parse_project({"tool.py": text.encode()}, "tool.py")
    assert caught.value.hint
