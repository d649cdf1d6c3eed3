"""The benchmarks that a project names in ``[tool.thoth]`` or ``thoth.toml``."""

from __future__ import annotations

import pytest

from adviser.projects.parsing import parse_project
from adviser.projects.project import Project, WarningCode
from model.errors import InvalidFile, Reason
from tests.factories.errors import raised

PROJECT = '[project]\nname = "demo"\ndependencies = ["numpy>=2"]\n'


def project(table: str, **files: str) -> Project:
    own = {name.replace("_", "."): text.encode() for name, text in files.items()}
    return parse_project({"pyproject.toml": f"{PROJECT}{table}".encode(), **own})


def test_a_project_names_its_benchmarks_in_the_order_of_its_file() -> None:
    table = '[tool.thoth.benchmarks]\ntrain = "python bench.py"\nserve = "./load.sh --users 8"\n'
    assert [*project(table).benchmarks.items()] == [
        ("train", "python bench.py"),
        ("serve", "./load.sh --users 8"),
    ]
    assert project("").benchmarks == {}


def test_thoth_toml_replaces_the_table_of_the_pyproject_toml() -> None:
    own = '[benchmarks]\ntrain = "python train.py"\n'
    read = project('[tool.thoth.benchmarks]\ntrain = "python bench.py"\n', thoth_toml=own)
    assert read.benchmarks == {"train": "python train.py"}
    assert [(it.code, it.field) for it in read.warnings] == [
        (WarningCode.FILE_IGNORED, "pyproject.toml:tool.thoth")
    ]
    files = {"requirements.in": b"numpy>=2\n", "thoth.toml": own.encode()}
    assert parse_project(files).benchmarks == read.benchmarks


def test_a_setting_that_is_not_known_is_named() -> None:
    (warning,) = project('[tool.thoth]\nbenchmark = "python bench.py"\n').warnings
    assert (warning.code, warning.field) == (
        WarningCode.OPTION_IGNORED, "pyproject.toml:tool.thoth.benchmark"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("table", "reason", "field"),
    [
        ("[tool]\nthoth = 1", Reason.WRONG_TYPE, "tool.thoth"),
        ("[tool.thoth]\nbenchmarks = []", Reason.WRONG_TYPE, "tool.thoth.benchmarks"),
        ("[tool.thoth.benchmarks]\na = 1", Reason.WRONG_TYPE, "tool.thoth.benchmarks.a"),
        ("[tool.thoth.benchmarks]\na = ''", Reason.MISSING_FIELD, "tool.thoth.benchmarks.a"),
        ("[tool.thoth.benchmarks]\na = ' '", Reason.OUT_OF_RANGE, "tool.thoth.benchmarks.a"),
        ('[tool.thoth.benchmarks]\na = "x \'"', Reason.OUT_OF_RANGE, "tool.thoth.benchmarks.a"),
        ('[tool.thoth.benchmarks]\na = "x\\ny"', Reason.OUT_OF_RANGE, "tool.thoth.benchmarks.a"),
        ("[tool.thoth.benchmarks]\n-a = 'x'", Reason.OUT_OF_RANGE, "tool.thoth.benchmarks.-a"),
    ],
)
def test_a_benchmark_that_is_no_command_is_refused_with_its_place(
    table: str, reason: Reason, field: str
) -> None:
    with raised(InvalidFile, reason=reason, place="pyproject.toml", field=field) as refused:
        project(table)
    assert refused.value.hint
