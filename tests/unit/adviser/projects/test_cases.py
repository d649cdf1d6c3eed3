"""What files of projects mean, case by case: ``tests/data/projects``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from adviser.projects.parsing import parse_project
from adviser.projects.project import Project
from tests.factories.case_files import check_cases
from tests.factories.golden import DATA


def read(files: Mapping[str, bytes]) -> Project:
    """The project; a script is named, as the commands do."""
    name = next(iter(files))
    return parse_project(files, name if name.endswith(".py") else None)


@pytest.mark.parametrize("path", sorted(DATA.glob("projects/*.txt")), ids=lambda it: it.stem)
def test_files_of_a_project_mean_what_their_case_says(path: Path) -> None:
    check_cases(str(path.relative_to(DATA)), read)
