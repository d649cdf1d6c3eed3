"""The plan of the evidence that comes with the product."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from model.packages.identity import MEASURED_PACKAGES
from pis.catalogue import LIBRARY_INDICATORS, arguments_of, indicator_of

PLAN = tomllib.loads((Path(__file__).parents[2] / "evidence" / "plan.toml").read_text("utf-8"))
LIBRARIES = {it["name"]: it for it in PLAN["library"]}


def test_evidence_plan_covers_enough_libraries_releases_and_pythons() -> None:
    assert len(LIBRARIES) == len(PLAN["library"]) >= 12
    assert {len(set(it["releases"])) for it in PLAN["library"]} == {5}
    assert sum(len(it.get("python", ())) == 2 for it in PLAN["library"]) == 2
    assert PLAN["jobs"] >= 7


@pytest.mark.parametrize("name", LIBRARIES)
def test_each_planned_library_has_an_indicator_and_pinned_companions(name: str) -> None:
    library = LIBRARIES[name]
    indicator = library.get("indicator", name)
    assert indicator in LIBRARY_INDICATORS
    assert name in indicator_of(indicator).frameworks
    assert name in MEASURED_PACKAGES
    assert arguments_of(indicator, {**PLAN["parameters"], "framework": name})
    assert library["releases"] == sorted(library["releases"], key=Version)
    pins = [Requirement(it) for it in library.get("pins", ())]
    assert all(str(it.specifier).startswith("==") and it.name != name for it in pins)
