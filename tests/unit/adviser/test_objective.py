"""What is maximised is what is printed, certified and explained."""

from dataclasses import replace
from typing import Any

import pytest

from adviser.advise import Advice, advise
from adviser.resolver.admission import contributions_of
from adviser.scoring.criteria import SCALE, RecommendationType
from adviser.why import ForcedOutcome, why_not
from cli.advise import certificate_line
from model.packages.candidates import Dependency, KnownVulnerability
from tests.factories.evidence import Bench, jobs
from tests.factories.reports import report_of
from tests.factories.requests import INDEX, NOTHING, advice_for, request_for, snapshot_for
from tests.factories.stacks_by_force import stacks_by_force
from tests.factories.universes import Index

#: The newest needs a package of which every version is vulnerable, the one before needs none.
HARMFUL: Index = {
    "web": {
        "2.0": {"requires": ["evil"], "uploaded_at": "2024-02-01T00:00:00+00:00"},
        "1.9": {"uploaded_at": "2024-01-01T00:00:00+00:00"},
    },
    "evil": {"1.0": {"uploaded_at": "2024-01-01T00:00:00+00:00"}},
}


def harmful(kind: RecommendationType, **options: Any) -> Advice:
    request = request_for("web\n", kind, **options)
    snapshot = snapshot_for(request, HARMFUL)
    known = (KnownVulnerability("CVE-1", "critical"), KnownVulnerability("CVE-2", "critical"))
    evil = tuple(replace(it, vulnerabilities=known) for it in snapshot.packages["evil"])
    packages = {**snapshot.packages, "evil": evil}
    return advise(request, replace(snapshot, packages=packages), NOTHING)


def measured() -> Advice:
    """``core`` 1.1 is 35 % faster than 1.0, which the project has."""
    bench = Bench()
    for version, level in (("1.0", 0.0), ("1.1", 0.3)):
        bench.measure(bench.stack(f"core=={version}", "tool==1.0", "web==2.0"), jobs(level))
    files = {
        "requirements.in": "web\ntool\n",
        "requirements.txt": "core==1.0\ntool==1.0\nweb==2.0\n",
    }
    request = request_for(kind=RecommendationType.PERFORMANCE, files=files, count=4)
    return advise(request, snapshot_for(request, INDEX), bench.evidence())


@pytest.mark.parametrize("kind", [RecommendationType.LATEST, RecommendationType.TESTING])
def test_newness_of_requested_packages_outweighs_vulnerabilities_of_others(
    kind: RecommendationType,
) -> None:
    advice = harmful(kind)
    assert advice.best.versions() == {"web": "2.0", "evil": "1.0"}
    forced = why_not(advice, Dependency("web", "==1.9"))
    assert forced.level == "newness of web"


@pytest.mark.parametrize(
    "kind", [RecommendationType.STABLE, RecommendationType.PERFORMANCE, RecommendationType.SECURITY]
)
def test_optional_package_without_a_clean_version_is_avoided(kind: RecommendationType) -> None:
    advice = harmful(kind)
    assert advice.best.versions() == {"web": "1.9"}
    forced = why_not(advice, Dependency("web", "==2.0"))
    if kind is RecommendationType.SECURITY:
        assert forced.outcome is ForcedOutcome.CONFLICT
        return
    assert forced.points is not None
    assert forced.points > 0
    assert forced.points == pytest.approx(sum(it.points for it in forced.losses))
    assert {it.criterion: it.points for it in forced.losses}["security"] > 0


@pytest.mark.parametrize("kind", RecommendationType)
@pytest.mark.parametrize(
    "make", [harmful, lambda kind, **more: advice_for(request_for(kind=kind, **more))]
)
def test_certified_score_is_the_sum_of_the_reported_criteria(
    kind: RecommendationType, make: Any
) -> None:
    report = report_of(make(kind, count=3))
    certificate = report["result"]["report"]["certificate"]
    first, *others = report["result"]["report"]["products"]
    assert certificate["status"] == "optimal"
    assert certificate["objective"] == certificate["bound"] == first["levels"]
    assert sum(first["levels"]) == round(first["score"] * SCALE)
    assert len(certificate["levels"]) == len(first["levels"])
    assert not any(certificate["gap"])
    assert f"score {first['score']:.4f} = bound" in certificate_line(report)
    for product in (first, *others):
        total = sum(round(it["contribution"] * SCALE) for it in product["criteria"])
        assert total == round(product["score"] * SCALE) <= 0
        assert total == sum(sum(it["contributions"]) for it in product["packages"])
        assert product["score"] == pytest.approx(sum(it["score"] for it in product["packages"]))
    levels = [it["levels"] for it in (first, *others)]
    assert levels == sorted(levels, reverse=True)


@pytest.mark.parametrize("advice", [harmful(RecommendationType.LATEST), measured()])
def test_no_valid_stack_has_a_better_objective_than_the_advised_one(advice: Advice) -> None:
    ((costs, *_), versions), *others = stacks_by_force(advice.universe)
    assert others
    assert advice.best.versions() == versions
    assert tuple(-it for it in costs) == advice.best.levels == advice.resolution.bound


def test_only_a_slower_version_has_a_performance_penalty() -> None:
    advice = measured()
    inner = report_of(advice)["result"]["report"]
    lines = {
        next(it["version"] for it in product["packages"] if it["name"] == "core"): next(
            it for it in product["criteria"] if it["name"] == "performance"
        )
        for product in inner["products"]
    }
    assert (lines["1.1"]["value"], lines["1.1"]["contribution"]) == (0, 0)
    (preference,) = advice.assessment.choices["core"].lost.values()
    gain = lines["1.1"]["value"] - lines["1.0"]["value"]
    assert gain == pytest.approx(preference.loss, abs=1e-6)
    assert gain > 0.2
    assert lines["1.0"]["contribution"] == pytest.approx(-100 * gain)
    answer = why_not(advice, Dependency("core", "==1.0"))
    (loss,) = (it.points for it in answer.losses if it.criterion == "performance")
    assert loss == pytest.approx(100 * gain)


def test_penalties_are_reported_even_without_an_alternative_version() -> None:
    index: Index = {"core": {"2.0rc1": {"uploaded_at": None}}}
    advice = advice_for(request_for("core\n", RecommendationType.STABLE), index)
    (product,) = report_of(advice)["result"]["report"]["products"]
    contributions = {it["name"]: it["contribution"] for it in product["criteria"]}
    assert (contributions["prerelease"], contributions["maturity"], contributions["freshness"]) == (
        -10,
        -5,
        0,
    )


def test_positive_penalty_is_refused() -> None:
    (it,) = snapshot_for(request_for("core<1.1\n"), INDEX).packages["core"][-1:]
    with pytest.raises(ValueError, match="is above zero"):
        list(contributions_of([it], {it.purl: (1,)}, {0}, lambda _: True))
