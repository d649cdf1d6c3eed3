"""From a snapshot and evidence to scores, refusals and what people are told."""

import math
import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from adviser.resolver.admission import universe_of
from adviser.resolver.resolve import resolve
from adviser.resolver.resolver_request import Budget, ResolverRequest
from adviser.resolver.universe import RequestRule
from adviser.scoring.assess import assess
from adviser.scoring.assessment_types import (
    Assessment,
    Justification,
    JustificationCode,
    NoteLevel,
    PackageDifference,
)
from adviser.scoring.criteria import RecommendationType
from model.measurements.evidence import Evidence
from model.packages.candidates import KnownVulnerability
from model.packages.snapshot import Snapshot
from tests.factories.evidence import (
    ELSEWHERE,
    GAIN,
    HERE,
    NOW,
    PLACE,
    Bench,
    harms,
    jobs,
    purl,
    series,
)
from tests.factories.universes import snapshot_of

BEST, LATEST, STABLE, TESTING, PERFORMANCE, SECURITY = RecommendationType


def released(days: float, *requires: str, **more: Any) -> dict[str, Any]:
    """A release of so many days ago."""
    return {"requires": requires, "uploaded_at": (NOW - timedelta(days=days)).isoformat(), **more}


INDEX = {
    "web": {
        "3.0rc1": released(1, "core"),
        "2.1": released(5, "core"),
        "2.0.1": released(100, "core"),
        "2.0": released(110, "core"),
        "1.0": released(800, "core"),
    },
    "core": {"1.1": released(900), "1.0": released(1000)},
}
NOTHING = Evidence(as_of=NOW, sources={"pypi": NOW})


def snapshot(**vulnerable: str) -> Snapshot:
    """That of the index; vulnerabilities by version of ``web``, as ``v2_1="CVE-1 high"``."""
    found = snapshot_of(INDEX, ["web"])
    versions = {f"v{it.version.replace('.', '_')}": it for it in found.packages["web"]}
    known = {
        versions[key].purl: KnownVulnerability(text.partition(" ")[0], text.partition(" ")[2])
        for key, text in vulnerable.items()
    }
    web = tuple(
        replace(it, vulnerabilities=(known[it.purl],) if it.purl in known else ())
        for it in found.packages["web"]
    )
    return replace(found, packages={**found.packages, "web": web})


def assessed(
    kind: RecommendationType, snap: Snapshot | None = None, evidence: Evidence = NOTHING,
    **more: Any,
) -> Assessment:  # fmt: skip
    arguments = {"baseline": None, "target": PLACE, **more}
    return assess(snap or snapshot(), evidence, kind, **arguments)


def advised(kind: RecommendationType, snap: Snapshot | None = None, **more: Any) -> str:
    """The version of ``web`` that the resolver then chooses."""
    snap = snap or snapshot()
    found = assessed(kind, snap, **more)
    request = ResolverRequest(refused=found.refused, all_prereleases=kind.admits_prereleases)
    universe = universe_of(snap, request, found.scores)
    (stack, *_) = resolve(universe, Budget()).stacks
    return stack.versions()["web"]


@pytest.mark.parametrize(
    ("kind", "version"),
    [(LATEST, "2.1"), (STABLE, "2.0.1"), (TESTING, "3.0rc1"), (PERFORMANCE, "2.1"),
     (SECURITY, "2.0.1")],
)  # fmt: skip
def test_each_recommendation_type_advises_its_documented_version(
    kind: RecommendationType, version: str
) -> None:
    assert advised(kind) == version


def test_only_the_security_type_excludes_vulnerable_versions() -> None:
    snap = snapshot(v2_1="CVE-1 medium")
    assert advised(SECURITY, snap) == "2.0.1"
    assert advised(LATEST, snap) == "2.0.1"
    assert assessed(LATEST, snap).refused == {}
    assert assessed(SECURITY, snap).refused == {
        purl("web==2.1"): "known vulnerability: CVE-1 (medium)"
    }
    universe = universe_of(snap, ResolverRequest(refused=assessed(SECURITY, snap).refused), {})
    assert [it.reason for it in universe.refused["web"]] == [RequestRule.POLICY]


def test_vulnerable_newest_version_is_replaced_by_the_next_clean_one() -> None:
    releases = {"3.1.5": 10, "3.1.4": 100, "3.0.6": 150, "3.0.5": 200}
    snap = snapshot_of({"web": {it: released(days) for it, days in releases.items()}}, ["web"])
    harm = KnownVulnerability("CVE-1", "medium")
    newest, *rest = snap.packages["web"]
    snap = replace(snap, packages={"web": (replace(newest, vulnerabilities=(harm,)), *rest)})
    for kind in (SECURITY, STABLE, PERFORMANCE):
        assert advised(kind, snap) == "3.1.4"
    clean = replace(snap, packages={"web": (newest, *rest)})
    assert assessed(SECURITY, snap, allowed=["CVE-1"]).scores == assessed(SECURITY, clean).scores


def test_allowed_vulnerability_neither_excludes_nor_penalises_a_version() -> None:
    snap, known = snapshot(v2_1="GHSA-1 critical"), harms(GHSA_1=("CVE-1", "GHSA-1"))
    evidence = replace(NOTHING, vulnerabilities=known)
    for kind in (LATEST, SECURITY):
        clean = assessed(kind)
        accepted = assessed(kind, snap, evidence, allowed=["cve-1"])
        assert (accepted.scores, accepted.refused) == (clean.scores, {})
        assert assessed(kind, snap, evidence).scores != clean.scores
    allowing = assessed(LATEST, snap, evidence, allowed=["CVE-1"])
    (note,) = (it for it in allowing.justifications_of({purl("web==2.1")}) if it.evidence)
    assert (note.code, note.type) == (JustificationCode.VULNERABILITY_ALLOWED, NoteLevel.INFO)


def measured(gain: float = GAIN, hardware: str = HERE) -> Evidence:
    """``web`` 2.0 that much faster than 2.1, beside one ``core``."""
    bench = Bench()
    for version, level in (("2.1", 0.0), ("2.0", gain)):
        stack = bench.stack(f"web=={version}", "core==1.1")
        bench.measure(stack, jobs(level), series(hardware=hardware))
    return bench.evidence()


def test_performance_type_prefers_settled_gains_and_latest_type_does_not() -> None:
    assert advised(PERFORMANCE, evidence=measured()) == "2.0"
    assert advised(LATEST, evidence=measured()) == "2.1"
    assert advised(PERFORMANCE, evidence=measured(0.01)) == "2.1"
    assert advised(PERFORMANCE, evidence=measured(-GAIN)) == "2.1"
    assert advised(PERFORMANCE, evidence=measured(-GAIN), baseline={"web": "2.0"}) == "2.1"


def test_each_contribution_is_criterion_value_times_weight() -> None:
    found = assessed(PERFORMANCE, evidence=measured())
    snap = snapshot()
    assert set(found.scores) == {it.purl for them in snap.packages.values() for it in them}
    names = [it.name for it in found.criteria]
    newer, faster = (
        dict(zip(names, found.scores[purl(f"web=={version}")], strict=True))
        for version in ("2.1", "2.0")
    )
    (preference,) = found.choices["web"].lost.values()
    assert preference.loss == pytest.approx(math.log(1.3), rel=0.01)
    assert newer["performance"] == round(-100 * 10_000 * preference.loss)
    assert faster["performance"] == 0
    assert faster["maintenance"] == -2_000
    assert faster["freshness"] == round(-0.1 * 10_000 * 2 / 4)
    assert all(isinstance(it, int) for row in found.scores.values() for it in row)


def test_baseline_is_the_newest_final_release_unless_a_lock_is_given() -> None:
    assert assessed(LATEST).baseline == {"core": purl("core==1.1"), "web": purl("web==2.1")}
    given = assessed(LATEST, baseline={"web": "2.0.0", "core": "9", "other": "1"})
    assert given.baseline == {"web": purl("web==2.0")}
    (lost,) = given.justifications
    assert (lost.code, lost.package) == (JustificationCode.BASELINE_UNAVAILABLE, "core")
    assert "core==9" in lost.message


def test_missing_and_uninstallable_packages_are_reported_by_name() -> None:
    index = {
        **INDEX,
        "core": {"1.1": {"requires": ["gone", "old"]}},
        "old": {"1": {"requires": None}},
    }
    found = assessed(LATEST, snapshot_of(index, ["web"]))
    assert (found.coverage.missing, found.coverage.unsolvable) == (("gone",), ("old",))
    assert [(it.code, it.package) for it in found.justifications] == [
        (JustificationCode.MISSING, "gone"), (JustificationCode.UNSOLVABLE, "old"),
    ]  # fmt: skip


def coded(found: Assessment, *releases: str) -> dict[JustificationCode, Justification]:
    notes = found.justifications_of({purl(it) for it in releases})
    return {it.code: it for it in (*found.justifications, *notes)}


def test_newer_release_for_another_python_shows_that_a_package_is_maintained() -> None:
    old = {"uploaded_at": "2020-01-01T00:00:00Z"}
    for newer, is_noted in (({}, True), ({"2.0": {"requires_python": ">=3.99"}}, False)):
        found = assessed(LATEST, snapshot_of({"core": {**newer, "1.0": old}}, ["core"]))
        assert (JustificationCode.UNMAINTAINED in coded(found, "core==1.0")) is is_noted


def test_only_packages_of_the_stack_are_justified() -> None:
    snap = snapshot(v2_1="GHSA-1 high", v1_0="GHSA-2 low")
    evidence = replace(measured(), vulnerabilities=harms(GHSA_1=("GHSA-1",)))
    found = assessed(PERFORMANCE, snap, evidence)
    newest = coded(found, "web==2.1", "core==1.1")
    assert set(newest) == {
        JustificationCode.VULNERABLE,
        JustificationCode.IMMATURE,
        JustificationCode.UNMAINTAINED,
    }
    assert newest[JustificationCode.VULNERABLE] == Justification(
        JustificationCode.VULNERABLE, NoteLevel.ERROR,
        "web 2.1 is affected by GHSA-1 (high): GHSA_1 is bad",
        "web", purl("web==2.1"), "https://osv.dev/vulnerability/GHSA-1", ("GHSA-1",),
    )  # fmt: skip
    assert newest[JustificationCode.UNMAINTAINED].package == "core"
    fast = coded(found, "web==2.0", "core==1.1")
    assert set(fast) == {JustificationCode.FASTER, JustificationCode.UNMAINTAINED}
    message = fast[JustificationCode.FASTER].message
    assert message == (
        "web 2.0 is 30 % faster than 2.1 in PiMatmul (95 % interval 29 to 31 %, 8 jobs of each);"
        " device cpu, size 512; this class"
    )
    assert fast[JustificationCode.FASTER].evidence == found.claims[0].evidence
    assert coded(found, "web==1.0")[JustificationCode.VULNERABLE].type is NoteLevel.WARNING


def test_gain_with_two_changed_packages_is_noted_once_and_not_scored() -> None:
    bench = Bench()
    for web, core, level in (("2.1", "1.1", 0.0), ("2.0", "1.0", GAIN)):
        bench.measure(bench.stack(f"web=={web}", f"core=={core}"), jobs(level))
    found = assessed(PERFORMANCE, evidence=bench.evidence())
    (note,) = found.justifications
    assert note.code is JustificationCode.CONFOUNDED
    assert note.message.endswith("; 2 packages differ: core, web, so this is not scored")
    assert {row[0] for row in found.scores.values()} == {0}


def test_at_most_five_confounded_comparisons_are_listed() -> None:
    bench, others = Bench(), [f"p{n}" for n in range(12)]
    bench.measure(bench.stack("web==2.1", *(f"{it}==1" for it in others)), jobs(0.0, 20))
    index: Any = {"web": {"2.1": released(5), "1": released(9)}}
    index |= {it: {"1": released(9), "2": released(10)} for it in others}
    for n in range(11):
        changed = [f"{it}=={2 if n <= m <= n + 1 else 1}" for m, it in enumerate(others)]
        bench.measure(bench.stack("web==2.1", *changed), jobs(-0.1 * (n + 1), 20))
    given = {"web": "2.1", **dict.fromkeys(others, "1")}
    found = assess(snapshot_of(index, ["web", *others]), bench.evidence(), STABLE, given, PLACE)
    told = [it.message for it in found.justifications if it.code is JustificationCode.CONFOUNDED]
    assert len(told) == 6
    assert re.match(
        r"stack \w{8} is [23]\.\d+ times as slow as stack \w{8} in PiMatmul \(", told[0]
    )
    assert told[-1] == (
        "6 more comparisons of stacks that differ in several packages: 6 slower; none is scored"
    )


def test_unstable_jobs_do_not_count_as_coverage() -> None:
    bench = Bench()
    bench.measure(bench.stack("web==2.1", "core==1.1"), jobs(), unstable="throttled")
    assert assessed(LATEST, evidence=bench.evidence()).coverage.measured == 0


def test_coverage_counts_measured_packages_and_names_the_nearest_measured_stack() -> None:
    found = assessed(LATEST, evidence=measured())
    assert (found.coverage.packages, found.coverage.measured, found.coverage.share) == (2, 2, 1.0)
    other = found.coverage_of({purl("web==2.0.1"), purl("core==1.1"), purl("more==1")})
    assert (other.measured, other.measured_elsewhere, other.share) == (1, 0, 1 / 3)
    assert other.nearest.differences[0] == PackageDifference("more", "1", None)
    assert other.nearest.differences[1].ours == "2.0.1"
    assert (other.nearest.jobs, other.nearest.same_hardware) == (8, True)
    (source,) = other.sources
    assert (source.name, source.as_of) == ("pypi", NOW)


def test_coverage_counts_measurements_on_other_hardware_separately() -> None:
    found = assessed(LATEST, evidence=measured(hardware=ELSEWHERE)).coverage
    assert (found.measured, found.measured_elsewhere, found.share) == (0, 2, 0.0)
    assert found.nearest.differences == ()
    assert (found.nearest.hardware_label, found.nearest.same_hardware) == ("another class", False)


def test_coverage_without_measurements_is_zero() -> None:
    found = assessed(LATEST).coverage
    assert (found.nearest, found.share) == (None, 0.0)
    empty = assessed(LATEST, snapshot_of({}, ["web"]))
    assert (empty.scores, empty.coverage.packages, empty.coverage.missing) == ({}, 0, ("web",))
