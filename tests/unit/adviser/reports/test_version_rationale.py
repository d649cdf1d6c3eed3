"""Why a version and not a newer one."""

from typing import Any

from adviser.advise import Advice
from adviser.reports.notes import rationales_of
from adviser.reports.version_rationale import Rationale, RationaleCode, VersionRationales
from adviser.scoring.criteria import RecommendationType
from model.packages.candidates import Dependency
from model.packages.identity import package_version
from tests.factories.golden import compare_views
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
PINNED: Index = {"app": {"1.0": {"requires": ["core==0.1b1"]}}, "core": {"0.1b2": {}, "0.1b1": {}}}


def test_further_stack_is_explained_by_its_difference_from_the_first() -> None:
    advice = advice_for(request_for("core\n", count=2))
    second = advice.resolution.stacks[1]
    reason = rationales_of(advice, second).rationale(second.choices[0])
    assert reason.place is RationaleCode.DIFFERS
    assert reason.message == "stacks must differ, and stack 1 has 2.0"


EXCLUDED = {"exclusions": (Dependency("added", ">=1"),)}
NEWER_SCORES_WORSE: Index = {
    "core": {
        "2.0": {"uploaded_at": "2025-12-31T00:00:00Z"},
        "1.0": {"uploaded_at": "2025-06-01T00:00:00Z"},
    }
}
#: An index, requirements, options and the package that is asked about.
CASES: dict[str, tuple[Index, str, dict[str, Any], str]] = {
    "the newest release": (INDEX, "web\n", {}, "web"),
    "held back by a package": (INDEX, "web\ntool\n", {}, "core"),
    "held back by the request": (INDEX, "web<3\n", {}, "web"),
    "held back to a pre-release": (PINNED, "app\n", {}, "core"),
    "an override is the request's": (INDEX, "web\n", {"overrides": {"core": "==1.0"}}, "core"),
    "it needs what another package forbids": (INDEX, "web\ntool\n", {}, "web"),
    "a need for another direct requirement comes first": (SPARK, "spark\ndelta\n", {}, "delta"),
    "a conflict comes before a package that can be added": (
        WITH_ADDED, "api!=2.0\nold\n", {}, "api",
    ),
    "what the request does not admit is no newer one": (
        {**WITH_ADDED, "api": {"4.0": {}, **API["api"]}}, "api<4,!=2.0\nold\n", {}, "api",
    ),
    "a conflict of what it needs": (WITHOUT_3, "api\nold\n", {}, "api"),
    "no version meets what it needs": (
        {**WITHOUT_3, "added": {"0.1": {}}}, "api\nold\n", {}, "api",
    ),
    "what it needs is excluded": (WITHOUT_3, "api\n", EXCLUDED, "api"),
    "pre-releases that need each other": (BETAS, "tool\nplugin\n", {}, "tool"),
    "the newer one is excluded": (
        INDEX, "core\n", {"exclusions": (Dependency("core", "==2.0"),)}, "core",
    ),
    "a release without a wheel comes before a pre-release": (
        UNBUILT, "core\n", {"only_wheels": True}, "core",
    ),
    "the newer one needs another Python": (INDEX, "old\n", {}, "old"),
    "the newer one was yanked": (
        {"core": {"2.0": {"yanked": True}, "1.0": {}}}, "core\n", {}, "core",
    ),
    "the newer one is a pre-release": ({"core": {"2.0rc1": {}, "1.0": {}}}, "core\n", {}, "core"),
    "the newer one scores worse": (
        NEWER_SCORES_WORSE, "core\n", {"kind": RecommendationType.STABLE}, "core",
    ),
}  # fmt: skip


def test_rationale_names_what_prevents_a_newer_version() -> None:
    views = {}
    for title, (index, manifest, options, name) in CASES.items():
        reason = rationale(advice_for(request_for(manifest, **options), index), name)
        if reason.newer_purl is not None:
            assert reason.newer_purl == package_version(name, reason.newer).purl
        known = "" if reason.newer_purl else " (of none that was looked at)"
        views[title] = f"{reason.place}, newer: {reason.newer}{known}\n{reason.message}"
    compare_views("rationales", views)


def test_rationale_names_the_override_of_a_requirement() -> None:
    advice = advice_for(request_for("web\n", overrides={"core": "==1.0"}))
    rationales = VersionRationales(advice.universe, advice.best, advice.assessment)
    told = [rationales.requirement_text(*it) for it in rationales.requirers("core")]
    assert told == ["web 3.0 requires core>=2 (overridden to core==1.0)"]
