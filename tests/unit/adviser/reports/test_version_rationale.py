"""Why a version and not a newer one."""

from __future__ import annotations

from typing import Any

import pytest

from adviser.advise import Advice
from adviser.reports.notes import rationales_of
from adviser.reports.version_rationale import (
    Rationale,
    RationaleCode,
    VersionRationales,
)
from adviser.scoring.criteria import RecommendationType
from model.packages.candidates import Dependency
from model.packages.identity import Purl
from tests.factories.requests import INDEX, advice_for, request_for
from tests.factories.universes import Index


def rationale(advice: Advice, name: str) -> Rationale:
    choice = next(it for it in advice.best.choices if it.name == name)
    return VersionRationales(advice.universe, advice.best, advice.assessment).rationale(choice)


#: Requires ``model`` 2 in many ways, which ``old`` does not allow.
API: Index = {
    "api": {
        "3.0": {"requires": ["added>=1", "shared>=2", "model>=2"]},
        "2.0": {"requires": ["added>=1"]},
        "1.0": {},
    },
    "old": {"1.0": {"requires": ["model<2", "shared"]}},
    "shared": {"2.0": {}, "1.0": {}},
    "model": {"2.0": {}, "1.0": {}},
    "added": {"2.0": {"requires": ["model>=2"]}, "1.0": {"requires": ["model>1"]}},
}
WITH_ADDED = {**API, "added": {"1.0": {}}}
WITHOUT_3 = {**API, "api": {it: API["api"][it] for it in ("2.0", "1.0")}}
SPARK: Index = {
    "spark": {"4.3": {"requires": ["alpha"]}, "4.2": {"requires": ["alpha"]}},
    "delta": {"4.4": {"requires": ["alpha<2", "spark<4.3"]}, "4.1": {}},
    "alpha": {"2.0": {}, "1.0": {}},
}
BETAS: Index = {
    "tool": {"1.0b2": {"requires": ["core==1.0b2"]}, "1.0b1": {"requires": ["core==1.0b1"]}},
    "core": {"1.0b2": {}, "1.0b1": {}},
    "plugin": {"1.0b1": {"requires": ["core==1.0b1"]}},
}
UNBUILT: Index = {"core": {"1.1rc1": {}, "1.1": {"wheels": [], "sdist": True}, "1.0": {}}}
PINNED: Index = {
    "app": {"1.0": {"requires": ["core==0.1b1"]}},
    "core": {"0.1b2": {}, "0.1b1": {}},
}
CONFLICT = "requires model>=2, but old 1.0 requires model<2"


@pytest.mark.parametrize(
    ("index", "manifest", "options", "name", "place", "message"),
    [
        (INDEX, "web\n", {}, "web", RationaleCode.NEWEST, "the newest release"),
        (INDEX, "web\ntool\n", {}, "core", RationaleCode.HELD_BACK, "tool 1.0 requires core<2"),
        (INDEX, "web<3\n", {}, "web", RationaleCode.HELD_BACK, "the request requires web<3"),
        (PINNED, "app\n", {}, "core", RationaleCode.HELD_BACK, "app 1.0 requires core==0.1b1"),
        (INDEX, "web\ntool\n", {}, "web", RationaleCode.NEEDS_OTHERS,
         "3.0 requires core>=2, but tool 1.0 requires core<2"),
        # A need for another direct requirement comes first.
        (SPARK, "spark\ndelta\n", {}, "delta", RationaleCode.NEEDS_OTHERS,
         "4.4 requires spark<4.3, but the stack has spark 4.3"),
        # What really conflicts comes before a package that can be added.
        (WITH_ADDED, "api!=2.0\nold\n", {}, "api", RationaleCode.NEEDS_OTHERS, f"3.0 {CONFLICT}"),
        # 4.0 is no newer one: the request does not admit it.
        ({**WITH_ADDED, "api": {"4.0": {}, **API["api"]}}, "api<4,!=2.0\nold\n", {}, "api",
         RationaleCode.NEEDS_OTHERS, f"3.0 {CONFLICT}"),
        (WITHOUT_3, "api\nold\n", {}, "api", RationaleCode.NEEDS_OTHERS,
         f"2.0 requires added>=1, added 2.0 {CONFLICT}"),
        ({**WITHOUT_3, "added": {"0.1": {}}}, "api\nold\n", {}, "api", RationaleCode.NEEDS_OTHERS,
         "2.0 requires added>=1, and no known version meets that"),
        (WITHOUT_3, "api\n", {"exclusions": (Dependency("added", ">=1"),)}, "api",
         RationaleCode.NEEDS_OTHERS,
         "2.0 requires added>=1, but added 2.0 cannot be chosen: excluded by added>=1"),
        (BETAS, "tool\nplugin\n", {}, "tool", RationaleCode.NEEDS_OTHERS,
         "1.0b2 requires core==1.0b2, but plugin 1.0b1 requires core==1.0b1"),
        (INDEX, "core\n", {"exclusions": (Dependency("core", "==2.0"),)}, "core",
         RationaleCode.NEWER_UNUSABLE, "2.0: excluded by core==2.0"),
        # A release that cannot be used comes before a pre-release.
        (UNBUILT, "core\n", {"only_wheels": True}, "core", RationaleCode.NEWER_UNUSABLE,
         "1.1: has no wheel for this environment"),
        ({"core": {"2.0": {"yanked": True}, "1.0": {}}}, "core\n", {}, "core",
         RationaleCode.NOT_INVITED, "2.0 was yanked"),
        ({"core": {"2.0rc1": {}, "1.0": {}}}, "core\n", {}, "core", RationaleCode.NOT_INVITED,
         "2.0rc1 is a pre-release, and none was requested"),
    ],
)  # fmt: skip
def test_what_keeps_a_package_from_a_newer_version_is_named(
    index: Index,
    manifest: str,
    options: dict[str, Any],
    name: str,
    place: RationaleCode,
    message: str,
) -> None:
    reason = rationale(advice_for(request_for(manifest, **options), index), name)
    assert (reason.place, reason.message) == (place, message)


def test_the_newer_version_is_named_apart() -> None:
    reason = rationale(advice_for(), "core")
    assert (reason.newer, reason.newer_purl) == ("2.0", Purl("pkg:pypi/core@2.0"))


def test_an_override_is_reported_as_the_requests_and_never_as_the_packages() -> None:
    advice = advice_for(request_for("web\n", overrides={"core": "==1.0"}))
    reason = rationale(advice, "core")
    assert (reason.place, reason.message) == (
        RationaleCode.HELD_BACK, "the request overrides core to ==1.0"
    )  # fmt: skip
    assert advice.best is not None
    rationales = VersionRationales(advice.universe, advice.best, advice.assessment)
    told = [rationales.requirement_text(*it) for it in rationales.requirers("core")]
    assert told == ["web 3.0 requires core>=2 (overridden to core==1.0)"]


def test_a_further_stack_differs_from_those_above_and_is_not_said_to_be_better() -> None:
    advice = advice_for(request_for("core\n", count=2))
    second = advice.resolution.stacks[1]
    reason = rationales_of(advice, second).rationale(second.choices[0])
    assert reason.place is RationaleCode.DIFFERS
    assert reason.message == "stacks must differ, and stack 1 has 2.0"


def test_a_newer_one_that_cannot_run_here_is_named_with_the_reason() -> None:
    reason = rationale(advice_for(request_for("old\n")), "old")
    assert (reason.place, reason.newer) == (RationaleCode.NEWER_UNUSABLE, "2.0")
    assert "requires Python >=3.13" in reason.message


def test_a_newer_one_that_scores_worse_is_named_with_the_criterion() -> None:
    index: Index = {
        "core": {
            "2.0": {"uploaded_at": "2025-12-31T00:00:00Z"},
            "1.0": {"uploaded_at": "2025-06-01T00:00:00Z"},
        }
    }
    reason = rationale(advice_for(request_for("core\n", RecommendationType.STABLE), index), "core")
    assert (reason.place, reason.newer) == (RationaleCode.SCORES_BETTER, "2.0")
    assert "maturity" in reason.message
