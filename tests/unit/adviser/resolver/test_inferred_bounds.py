"""Bounds that no release declares, and the stacks that they prevent."""

from typing import Any

import pytest

from adviser.advise import Advice
from adviser.reports.checking import check_offline
from adviser.resolver.inferred_bounds import inferred_bounds
from model.packages.candidates import Dependency
from tests.factories.reports import report_of
from tests.factories.requests import advice_for, request_for
from tests.factories.universes import ENVIRONMENT, Index, snapshot_of

OLD, NEW = {"uploaded_at": "2023-01-01T00:00:00Z"}, {"uploaded_at": "2025-06-01T00:00:00Z"}
COMPILED = {"wheels": ["cp311-cp311-manylinux_2_17_x86_64"]}
#: As on the index: what flask 1.1.4 and 1.1.2 require, and what was released since.
FLASK: Index = {
    "flask": {
        "3.1": {"requires": ["jinja2>=3.1.2"], **NEW},
        "1.1.4": {"requires": ["jinja2<3.0,>=2.10.1"], **OLD},
        "1.1.2": {"requires": ["jinja2>=2.10.1"], **OLD},
    },
    "jinja2": {
        "3.1.6": {"requires": ["markupsafe>=2.0"], **NEW},
        "2.11.3": {"requires": ["markupsafe>=0.23"], **OLD},
    },
    "markupsafe": {"3.0": NEW, "1.1": OLD},
}
PANDAS: Index = {
    "pandas": {
        "3.1.1": {"requires": ["numpy>=2", "odfpy; extra == 'excel'"], **NEW, **COMPILED},
        "1.5.3": {"requires": ["numpy>=1.21"], **OLD, **COMPILED},
    },
    "numpy": {"2.4.6": {**NEW, **COMPILED}, "1.26.4": {**OLD, **COMPILED}},
    "odfpy": {"1.4.1": {**NEW, "wheels": [], "sdist": True}},
}


def versions(manifest: str, index: Index, **options: Any) -> dict[str, str]:
    advice = advice_for(request_for(manifest, **options), index)
    return advice.best.versions()


def notes(advice: Advice, code: str) -> list[str]:
    inner = report_of(advice)["result"]["report"]
    return [it["message"] for it in inner["stack_info"] if it["code"] == code]


def report_problems(advice: Advice) -> tuple[str, ...]:
    return check_offline(report_of(advice), advice.snapshot, advice.evidence).problems


@pytest.mark.parametrize("manifest", ["flask<2\njinja2\nmarkupsafe\n", "flask<2\n"])
def test_old_flask_gets_a_compatible_jinja2(manifest: str) -> None:
    assert versions(manifest, FLASK) == {"flask": "1.1.4", "jinja2": "2.11.3", "markupsafe": "3.0"}


def test_upper_bound_of_a_later_patch_release_applies_to_earlier_patch_releases() -> None:
    advice = advice_for(request_for("jinja2\nflask==1.1.2\n"), FLASK)
    assert advice.best.versions()["jinja2"] == "2.11.3"
    text = "flask 1.1.4 restricts jinja2 to <3.0; 1.1.2 declared no bound"
    assert notes(advice, "inferred_bound") == [f"flask 1.1.2: inferred jinja2<3.0: {text}"]
    (row,) = [
        it
        for it in report_of(advice)["result"]["report"]["products"][0]["packages"]
        if it["name"] == "jinja2"
    ]
    assert text in row["why"]["message"]


def test_wheel_built_for_numpy_1_is_not_combined_with_numpy_2() -> None:
    assert versions("pandas<2\nnumpy\n", PANDAS) == {"pandas": "1.5.3", "numpy": "1.26.4"}
    assert versions("numpy\npandas\n", PANDAS) == {"pandas": "3.1.1", "numpy": "2.4.6"}


def test_old_version_without_a_requested_extra_is_the_last_choice() -> None:
    """The extra needs a package that must be built."""
    newest = {"pandas": "3.1.1", "numpy": "2.4.6", "odfpy": "1.4.1"}
    assert versions("pandas[excel]\n", PANDAS) == newest
    advice = advice_for(request_for("pandas[excel]\n", only_wheels=True), PANDAS)
    assert advice.best.versions() == {"pandas": "1.5.3", "numpy": "1.26.4"}
    (note,) = notes(advice, "extra_missing")
    assert "pandas 1.5.3 does not have the extra 'excel'" in note


def test_unsatisfiable_inferred_bounds_are_dropped_with_a_note() -> None:
    advice = advice_for(request_for("pandas<2\nnumpy>=2\n"), PANDAS)
    assert advice.best.versions() == {"pandas": "1.5.3", "numpy": "2.4.6"}
    assert advice.unbounded == {"pandas"}
    assert len(notes(advice, "bounds_dropped")) == 1


def test_inferred_bounds_are_dropped_only_for_the_package_that_needs_it() -> None:
    index: Index = {**PANDAS, **FLASK}
    manifest = "pandas<2\nnumpy>=2\nflask==1.1.2\n"
    advice = advice_for(request_for(manifest), index)
    assert advice.best.versions()["jinja2"] == "2.11.3"
    assert advice.unbounded == {"pandas"}
    assert report_problems(advice) == ()
    advice = advice_for(request_for(f"{manifest}jinja2>2\n"), index)
    assert advice.unbounded == {"pandas"}
    advice = advice_for(request_for(f"{manifest}jinja2>3\n"), index)
    assert advice.unbounded == {"flask", "pandas"}
    assert report_problems(advice) == ()


@pytest.mark.parametrize(
    ("later", "earlier", "bound"),
    [
        ("lib<3", "lib", "<3"),
        ("lib<=2.9", "lib>=1", "<=2.9"),
        ("lib~=2.1", "lib", "<3"),
        ("lib~=2.1.3", "lib", "<2.2"),
        ("lib==2.1", "lib", None),
        ("lib<3", "lib<4", None),
        ("lib<3", "lib==1.0", None),
        ("lib<3", "other", None),
        ("lib<3; extra == 'x'", "lib", None),
    ],
)
def test_only_missing_upper_bounds_are_inferred(
    later: str, earlier: str, bound: str | None
) -> None:
    index: Index = {
        "app": {"1.0.2": {"requires": [later]}, "1.0.1": {"requires": [earlier]}},
        "lib": {"1.0": {}},
        "other": {"1.0": {}},
    }
    snapshot = snapshot_of(index, ["app"])
    bounds = inferred_bounds(snapshot.packages, ENVIRONMENT)
    found = [it.specifier for it in bounds.get(snapshot.packages["app"][1].purl, ())]
    assert found == ([] if bound is None else [bound])


@pytest.mark.parametrize(
    ("release", "bounded"),
    [
        ({**OLD, **COMPILED}, True),
        ({**NEW, **COMPILED}, False),
        ({**OLD, "wheels": ["py3-none-any"]}, False),
        ({**OLD, "wheels": ["py3-none-manylinux_2_17_x86_64"]}, False),
        ({**OLD, "wheels": ["cp38-abi3-manylinux_2_17_x86_64"]}, True),
        ({**OLD, **COMPILED, "requires": ["numpy<1.30"]}, False),
        (COMPILED, False),
    ],
)
def test_compiled_wheels_from_before_numpy_2_need_numpy_1(
    release: dict[str, Any], bounded: bool
) -> None:
    index: Index = {"app": {"1.0": {"requires": ["numpy"], **release}}, "numpy": {"2.0": {}}}
    snapshot = snapshot_of(index, ["app"])
    bounds = inferred_bounds(snapshot.packages, ENVIRONMENT)
    (app,) = snapshot.packages["app"]
    reason = "app 1.0 was compiled before NumPy 2, for the interface of NumPy 1"
    assert bounds.get(app.purl) == (
        (Dependency("numpy", "<2", reason=reason),) if bounded else None
    )


@pytest.mark.parametrize(
    ("wheels", "others", "numpy"),
    [
        (["cp310-cp310-manylinux_2_17_x86_64"], [], "1.26.4"),
        (["cp311-cp311-win_amd64"], [], "1.26.4"),
        ([], ["cp312-cp312-win_amd64"], "1.26.4"),
        (["cp310-cp310-win_amd64", "py2-none-any"], [], "2.4.6"),
        ([], ["py3-none-any"], "2.4.6"),
    ],
)
def test_numpy_1_bound_applies_to_source_builds_of_compiled_packages(
    wheels: list[str], others: list[str], numpy: str
) -> None:
    old = {"requires": ["numpy"], "wheels": wheels, "sdist": True, **OLD}
    index: Index = {**PANDAS, "fast": {"2": {"wheels": others, **NEW}, "1": old}}
    assert versions("fast<2\nnumpy\n", index) == {"fast": "1", "numpy": numpy}
