"""Notes of reports: those that a plain report has are left out."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from adviser.advise import Advice, advise, in_this_process
from adviser.reports.documents import ReleaseKnowledge
from adviser.resolver.resolver_request import Budget
from adviser.resolver.results import Resolution
from adviser.resolver.universe import Universe
from adviser.scoring.criteria import RecommendationType
from adviser.scoring.estimates import Method
from adviser.scoring.sample_needs import Need
from adviser.scoring.verdicts import Verdict
from adviser.stack_request import RequestIndex
from model.measurements.evidence import ADVISORIES, Evidence
from model.packages.candidates import KnownVulnerability
from tests.factories.evidence import Bench
from tests.factories.golden import compare_views
from tests.factories.reports import kept, report_of
from tests.factories.requests import INDEX, MAIN, NOTHING, advice_for, request_for, snapshot_for
from tests.factories.universes import ENVIRONMENT, Index

DAY = datetime(2025, 1, 1, tzinfo=UTC)
FIRST = RequestIndex("ours", "ours", "https://ours.example/simple")
OWNER = replace(FIRST, owns=("core",))
UNKNOWN = RequestIndex("main", "main", "https://index.example/simple", known=False)
CORE: Index = {"core": {"1.0": {}}}
OURS: Index = {"core": {"1.0 ours": {}}}
BLIND = replace(NOTHING, sources={ADVISORIES: None})
PATCH = replace(ENVIRONMENT, python_full_version="3.11.0")

OLD, NEW = {"uploaded_at": "2024-01-01T00:00:00Z"}, {"uploaded_at": "2025-06-01T00:00:00Z"}
BEFORE = {"uploaded_at": "2025-05-01T00:00:00Z"}
#: The pre-release is older than what became of it.
PRERELEASES: Index = {
    "core": {"2.0rc1": OLD, "1.1": NEW, "1.0": NEW},
    "app": {"1.0": {"requires": ["core>=2.0rc1"], **OLD}},
    "web": {"1.0": {"requires": ["fast; extra == 'speed'", "web[nosuch]; extra == 'all'"], **OLD}},
    "fast": {"1.0": {"requires": ["core[never]"], **OLD}},
}
EXTRAS: Index = {
    "kit": {"1.0": {"requires": ["web[cli]"]}},
    "web": {"2.0": {}, "1.0": {"requires": ["core; extra == 'cli'"]}},
    "core": {"1.0": {}},
}
INVALID: Index = {
    "sde": {"1.0": {"requires": ["core (>=1.19.*)"], "requires_python": ">=3.6.*,"}},
    "core": {"1.20": {}, "1.18": {}},
}
SDIST: dict[str, Any] = {"wheels": [], "sdist": True, **NEW}
WINDOWS: dict[str, Any] = {"wheels": ["cp311-cp311-win_amd64"], "sdist": True, **NEW}
#: It needs a newer C library than the environment has.
NEWER: dict[str, Any] = {**SDIST, "wheels": ["cp311-cp311-manylinux_2_99_x86_64"]}
OLD_SDIST: dict[str, Any] = {
    "wheels": ["cp310-cp310-win_amd64"], "sdist": True, "uploaded_at": "2020-01-01T00:00:00Z",
}  # fmt: skip


def of(manifest: str, index: Index = INDEX, evidence: Evidence = NOTHING, **more: Any) -> Advice:
    return advice_for(request_for(manifest, **more), index, evidence)


def measured(*stacks: str) -> Evidence:
    bench = Bench()
    for number, releases in enumerate(stacks, 1):
        bench.measure(bench.stack(*releases.split()), [0.0] * number)
    return bench.evidence()


def hurried() -> Advice:
    """An advice whose search had no time."""

    def resolver(universe: Universe, budget: Budget | None = None, *, count: int = 1) -> Resolution:
        return in_this_process(universe, replace(budget or Budget(), steps=0), count=count)

    request = request_for(time_s=1e-9)
    return advise(request, snapshot_for(request), NOTHING, resolver=resolver)


def lacking(needs: Need) -> Advice:
    """An advice with a claim that lacks jobs or something else."""
    advice = kept()
    claim = replace(
        next(it for it in advice.assessment.claims if it.purl and it.here),
        verdict=Verdict.UNDETERMINED, method=Method.WELCH, needs=needs, jobs_missing=5,
        baseline_jobs_missing=6, interval_high_pct=math.inf,
    )  # fmt: skip
    return replace(advice, assessment=replace(advice.assessment, claims=(claim,)))


def vulnerable(*allowed: str) -> Advice:
    """An advice that leaves only a pre-release unless the vulnerability is allowed."""
    request = request_for(
        "core\n", RecommendationType.SECURITY, allowed_vulnerabilities=frozenset(allowed)
    )
    snapshot = snapshot_for(request, PRERELEASES)
    harm = (KnownVulnerability("CVE-1", "high"),)
    core = tuple(
        it if it.prerelease else replace(it, vulnerabilities=harm)
        for it in snapshot.packages["core"]
    )
    return advise(request, replace(snapshot, packages={"core": core}), NOTHING)


def built(source: str, **more: Any) -> Advice:
    return of("it\n", {"it": {"1": {**SDIST, "metadata_source": source, **more}}})


EXACT, NEAR = measured("web==3.0 core==2.0"), measured("web==3.0 core==1.1", "web==1.0 core==1.0")
ADVICE = {
    "the same name on another index": of("core\n", {"core": {"1.0": {}, "2.0 other": {}}}),
    "an index that is searched first": of("core\n", OURS, indexes=(FIRST, MAIN)),
    "an index that owns the name": of("core\n", OURS, indexes=(OWNER, MAIN)),
    "an index that is searched first and lacks it": of("core\n", CORE, indexes=(FIRST, MAIN)),
    "an index that is not asked": of("core\n", CORE, indexes=(FIRST,)),
    "an unknown index": of("core\n", INDEX, indexes=(UNKNOWN,)),
    "an unknown index that would be searched first": of("core\n", CORE, indexes=(UNKNOWN, MAIN)),
    "an unknown index that would be searched last": of("core\n", CORE, indexes=(MAIN, UNKNOWN)),
    "a search without time": hurried(),
    "fewer stacks than requested": of("tool\n", count=9),
    "an editable install": of("core\n-e ./here\n"),
    "all packages were measured": of("web\n", INDEX, EXACT),
    "one of two packages was measured": of("web\n", INDEX, NEAR),
    "hardware is unknown": of("web\n", INDEX, EXACT, hardware=None),
    "hardware without a label": of("web\n", hardware=f"sha256:{'a1' * 32}"),
    "no advisories": of("core\n", INDEX, BLIND),
    "no advisories, and security is requested": of(
        "core\n", INDEX, BLIND, kind=RecommendationType.SECURITY
    ),
    "a patch level that is assumed": advice_for(replace(request_for(), environment=PATCH)),
    "a measurement next to a conflict": of("old>=2\n", INDEX, measured("core==2.0")),
    "names without effect": of(
        "core\n", prereleases=frozenset({"core", "nothere"}),
        allowed_vulnerabilities=frozenset({"CVE-2024-1"}),
    ),
    **{f"a claim that lacks {need.value}": lacking(need)
       for need in (Need.JOBS, Need.RUNS, Need.HOSTS, Need.TURNS)},
    "a cooldown that leaves a pre-release": of("core\n", PRERELEASES, published_before=DAY),
    "a refusal that leaves a pre-release": vulnerable(),
    "a vulnerability that is allowed": vulnerable("cve-1"),
    "a pre-release that a package requires": of("app\n", PRERELEASES),
    "a pre-release that is requested": of("core==2.0rc1\n", PRERELEASES),
    "a pre-release without a release": of("core\n", {"core": {"2.0rc1": OLD}}),
    "an extra that a package lacks": of("web[speed]\n", PRERELEASES),
    "an extra of its own that a package lacks": of("web[all]\n", PRERELEASES),
    "extras that are requested and lacking": of("web[nosuch,sped]\n", PRERELEASES),
    "an extra that only an older version has": of("web[cli]\n", EXTRAS),
    "an extra that only an older version has, for a package": of("kit\n", EXTRAS),
    "requirements that are not valid": of("sde\ncore<3.*\n", INVALID),
    "a source distribution with certain requirements": built("sdist"),
    "a source distribution that was built": built("sdist-built"),
    "a source distribution with likely requirements": built("sdist-likely"),
    "likely requirements although a wheel fits": built("sdist-likely", wheels=["py3-none-any"]),
    "only wheels are allowed": of("it\n", {"it": {"1": SDIST}}, only_wheels=True),
    "wheels for a newer system": of("it\n", {"it": {"2": NEWER, "1": BEFORE}}),
    "a source distribution that is older than this Python": of("it\n", {"it": {"1": OLD_SDIST}}),
    "requirements that are not valid, in a conflict": of("sde\ncore<1.19\n", INVALID),
    "a package that is not known": of("web\nnowhere\n"),
    "hardware that is not that of measurements": advice_for(
        replace(request_for(), hardware_note="nothing was measured on hardware like this")
    ),
    "wheels for other platforms": of("it\n", {"it": {"1": WINDOWS}}),
}  # fmt: skip


def notes(advice: Advice, known: ReleaseKnowledge | None = None) -> list[str]:
    report = report_of(advice, known)["result"]["report"]
    about = [("", it) for it in report["stack_info"]]
    about += [
        (f"stack {number}: " if len(report["products"]) > 1 else "", it)
        for number, product in enumerate(report["products"], 1)
        for it in product["justification"]
    ]
    return [
        f"{stack}{it['type']} {it['code']} {it.get('package_name', '')}: {it['message']}"
        for stack, it in about
    ]


def test_notes_are_those_of_the_golden_file() -> None:
    usual = notes(advice_for())
    views = {"usual": "\n".join(usual)}
    for title, advice in ADVICE.items():
        best = advice.best.versions() if advice.best else {}
        chosen = ", ".join(f"{name} {version}" for name, version in best.items())
        views[title] = "\n".join([chosen, *(it for it in notes(advice) if it not in usual)])
    compare_views("notes", views)
