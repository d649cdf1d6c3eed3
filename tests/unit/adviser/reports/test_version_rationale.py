"""Why a version and not a newer one."""

from __future__ import annotations

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
from tests.factories.requests import advice_for, request_for
from tests.factories.universes import Index


def rationale(advice: Advice, name: str) -> Rationale:
    assert advice.best is not None
    choice = next(it for it in advice.best.choices if it.name == name)
    return VersionRationales(advice.universe, advice.best, advice.assessment).rationale(choice)


def test_the_newest_version_needs_no_explanation() -> None:
    assert rationale(advice_for(request_for("web\n")), "web").place is RationaleCode.NEWEST


def test_who_holds_a_version_back_is_named() -> None:
    reason = rationale(advice_for(), "core")
    assert reason == Rationale(
        RationaleCode.HELD_BACK, "tool 1.0 requires core<2", "2.0", Purl("pkg:pypi/core@2.0")
    )


def test_the_request_itself_is_named_first() -> None:
    reason = rationale(advice_for(request_for("web<3\n")), "web")
    assert reason == Rationale(
        RationaleCode.HELD_BACK, "the request requires web<3", "3.0", Purl("pkg:pypi/web@3.0")
    )


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


def test_what_a_newer_one_would_need_is_named() -> None:
    reason = rationale(advice_for(), "web")
    assert reason.place is RationaleCode.NEEDS_OTHERS
    assert reason.message == "3.0 requires core>=2, but tool 1.0 requires core<2"


def test_a_need_for_another_direct_requirement_is_named_first() -> None:
    index: Index = {
        "spark": {"4.3": {"requires": ["alpha"]}, "4.2": {"requires": ["alpha"]}},
        "delta": {"4.4": {"requires": ["alpha<2", "spark<4.3"]}, "4.1": {}},
        "alpha": {"2.0": {}, "1.0": {}},
    }
    reason = rationale(advice_for(request_for("spark\ndelta\n"), index), "delta")
    assert reason.message == "4.4 requires spark<4.3, but the stack has spark 4.3"


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


def test_a_requirement_that_really_conflicts_is_named_and_not_a_package_that_can_be_added() -> None:
    advice = advice_for(request_for("api>=3\nold\n"), API)
    assert advice.best is None
    index = {**API, "added": {"1.0": {}}}
    reason = rationale(advice_for(request_for("api!=2.0\nold\n"), index), "api")
    assert reason.message == "3.0 requires model>=2, but old 1.0 requires model<2"


def test_the_newest_version_within_the_requirements_on_a_package_is_explained() -> None:
    index = {**API, "api": {"4.0": {}, **API["api"]}, "added": {"1.0": {}}}
    reason = rationale(advice_for(request_for("api<4,!=2.0\nold\n"), index), "api")
    assert (reason.newer, reason.place) == ("3.0", RationaleCode.NEEDS_OTHERS)
    assert reason.message == "3.0 requires model>=2, but old 1.0 requires model<2"


def test_a_package_that_cannot_be_added_is_named_with_the_reason() -> None:
    index = {**API, "api": {it: API["api"][it] for it in ("2.0", "1.0")}}
    reason = rationale(advice_for(request_for("api\nold\n"), index), "api")
    assert reason.message == (
        "2.0 requires added>=1, added 2.0 requires model>=2, but old 1.0 requires model<2"
    )
    older = {**index, "added": {"0.1": {}}}
    reason = rationale(advice_for(request_for("api\nold\n"), older), "api")
    assert reason.message == "2.0 requires added>=1, and no known version meets that"
    request = request_for("api\n", exclusions=(Dependency("added", ">=1"),))
    reason = rationale(advice_for(request, index), "api")
    assert reason.message == (
        "2.0 requires added>=1, but added 2.0 cannot be chosen: excluded by added>=1"
    )


def test_a_newer_one_that_cannot_run_here_is_named_with_the_reason() -> None:
    reason = rationale(advice_for(request_for("old\n")), "old")
    assert (reason.place, reason.newer) == (RationaleCode.NEWER_UNUSABLE, "2.0")
    assert "requires Python >=3.13" in reason.message


def test_an_excluded_newer_one_is_named_with_the_rule() -> None:
    request = request_for("core\n", exclusions=(Dependency("core", "==2.0"),))
    reason = rationale(advice_for(request), "core")
    assert reason == Rationale(RationaleCode.NEWER_UNUSABLE, "2.0: excluded by core==2.0", "2.0")


@pytest.mark.parametrize(
    ("release", "version", "words"),
    [
        ({"yanked": True}, "2.0", "2.0 was yanked"),
        ({}, "2.0rc1", "2.0rc1 is a pre-release, and none was requested"),
    ],
)
def test_a_package_that_nobody_required_is_named(
    release: dict[str, bool], version: str, words: str
) -> None:
    index: Index = {"core": {version: release, "1.0": {}}}
    reason = rationale(advice_for(request_for("core\n"), index), "core")
    assert (reason.place, reason.message) == (RationaleCode.NOT_INVITED, words)


def test_a_newer_prerelease_is_named_with_what_it_needs_if_a_prerelease_is_chosen() -> None:
    index: Index = {
        "tool": {
            "1.0b2": {"requires": ["core==1.0b2"]},
            "1.0b1": {"requires": ["core==1.0b1"]},
        },
        "core": {"1.0b2": {}, "1.0b1": {}},
        "plugin": {"1.0b1": {"requires": ["core==1.0b1"]}},
    }
    reason = rationale(advice_for(request_for("tool\nplugin\n"), index), "tool")
    assert reason.place is RationaleCode.NEEDS_OTHERS
    assert reason.message == "1.0b2 requires core==1.0b2, but plugin 1.0b1 requires core==1.0b1"


def test_a_newer_release_that_cannot_be_used_is_named_before_prereleases() -> None:
    index: Index = {"core": {"1.1rc1": {}, "1.1": {"wheels": [], "sdist": True}, "1.0": {}}}
    reason = rationale(advice_for(request_for("core\n", only_wheels=True), index), "core")
    assert reason.place is RationaleCode.NEWER_UNUSABLE
    assert reason.message == "1.1: has no wheel for this environment"


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


def test_a_pinned_prerelease_is_held_by_the_pin() -> None:
    index: Index = {
        "app": {"1.0": {"requires": ["core==0.1b1"]}},
        "core": {"0.1b2": {}, "0.1b1": {}},
    }
    reason = rationale(advice_for(request_for("app\n"), index), "core")
    assert reason.place is RationaleCode.HELD_BACK
    assert reason.message == "app 1.0 requires core==0.1b1"
