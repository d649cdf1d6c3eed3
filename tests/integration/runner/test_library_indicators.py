"""Indicators of single libraries, with whichever of them this interpreter has."""

import json
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

from model.packages.identity import MEASURED_PACKAGES
from pis.bundle import script_of
from pis.catalogue import LIBRARY_INDICATORS, indicator_of
from pis.indicators.errors import Unsupported, WrongResult
from pis.indicators.harness import Work
from pis.indicators.libraries import load_framework
from pis.indicators.library_calls import Made, library_indicator, library_works, same
from tests.services.json_schemas import validate

SCHEMA = Path(__file__).parents[3] / "docs" / "reference" / "indicator-result.schema.json"

CASES = [(name, it) for name in LIBRARY_INDICATORS for it in indicator_of(name).frameworks]


@pytest.fixture(autouse=True)
def _installed(request: pytest.FixtureRequest) -> None:
    library = getattr(request.node, "callspec", None) and request.getfixturevalue("library")
    try:
        version(library or "packaging")
    except PackageNotFoundError:
        pytest.skip(f"{library} is not installed for the tests")


def works_of(name: str, library: str, seed: int) -> list[Work]:
    framework = load_framework(library, "cpu", 1, "function")
    return list(indicator_of(name).works(framework, {"operation": "all", "seed": seed}))


@pytest.mark.parametrize(("name", "library"), CASES)
def test_standalone_library_script_measures_each_operation(
    name: str, library: str, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(script_of(name), encoding="utf-8")
    flags = ["--framework", library, "--quiet", "--threads=1", "--reps=2", "--mini-batch=1"]
    done = subprocess.run(
        [sys.executable, "-I", str(script), *flags], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    validate(document, json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert (document["component"], document["component_version"]) == (library, version(library))
    operations = [it["@parameters"]["operation"] for it in document["@results"]]
    choices = next(it.choices for it in indicator_of(name).parameters if it.name == "operation")
    assert ["all", *operations] == list(choices)
    assert {it["@result"]["unit"] for it in document["@results"]} == {"runs/s"}


@pytest.mark.parametrize(("name", "library"), CASES)
def test_library_result_of_another_input_fails_the_check(name: str, library: str) -> None:
    for work, other in zip(works_of(name, library, 1), works_of(name, library, 2), strict=True):
        work.check(work.call())
        with pytest.raises(WrongResult):
            work.check(other.call())


def test_operation_missing_in_a_release_is_skipped(capsys: pytest.CaptureFixture[str]) -> None:
    def lacking(module: Any, seed: int) -> Made:
        return Made(module.no_such_function, lambda _: 0.0, {})

    def present(module: Any, seed: int) -> Made:
        return Made(module.__version__.split, lambda _: 0.0, {"rows": 1})

    library_indicator("packaging", "PiPackaging", "Nothing.", {})
    framework = load_framework("packaging", "cpu", 1, "function")
    values = {"operation": "all", "seed": 0}
    works = list(library_works({"a": lacking, "b": present}, framework, values))
    assert [work.parameters for work in works] == [{"operation": "b", "rows": 1}]
    assert "no_such_function" in capsys.readouterr().err
    with pytest.raises(Unsupported, match="no_such_function"):
        list(library_works({"a": lacking, "b": present}, framework, {**values, "operation": "a"}))


def test_different_library_output_is_a_wrong_result() -> None:
    assert same([1], [1]) == 0
    with pytest.raises(WrongResult):
        same([1], [2])


def test_list_of_measured_packages_has_every_library_with_an_indicator() -> None:
    assert {library for _, library in CASES} <= MEASURED_PACKAGES
