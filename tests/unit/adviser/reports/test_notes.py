"""Notes of reports, what a stack falls short of, and the page that explains each code."""

import math
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from adviser.advice_request import RequestIndex
from adviser.advise import Advice, advise, in_this_process
from adviser.locks.formats import LockFormat
from adviser.projects.project import WarningCode
from adviser.provenance import IssueId, ProvenanceIssue
from adviser.reports.documents import ReleaseKnowledge, lock_of
from adviser.reports.note_codes import PAGES, NoteCode, link_of, project_code
from adviser.reports.version_rationale import RationaleCode
from adviser.resolver.resolver_request import Budget
from adviser.resolver.results import Resolution
from adviser.resolver.universe import Universe
from adviser.scoring.assessment_types import JustificationCode, NoteLevel
from adviser.scoring.criteria import RecommendationType
from adviser.scoring.estimates import Method
from adviser.scoring.sample_needs import Need
from adviser.scoring.verdicts import Verdict
from model.measurements.evidence import ADVISORIES, Evidence
from model.packages.candidates import KnownVulnerability
from model.packages.releases import ReleaseFile
from tests.factories.evidence import Bench
from tests.factories.golden import compare_views
from tests.factories.reports import kept, report_of
from tests.factories.requests import (
    INDEX,
    MAIN,
    NOTHING,
    advice_for,
    known_for,
    request_for,
    snapshot_for,
)
from tests.factories.universes import ENVIRONMENT, Index, dependency

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


def test_notes_warn_about_packages_of_the_advised_stack() -> None:
    usual = notes(advice_for())
    views = {"usual": "\n".join(usual)}
    for title, advice in ADVICE.items():
        best = advice.best.versions() if advice.best else {}
        chosen = ", ".join(f"{name} {version}" for name, version in best.items())
        views[title] = "\n".join([chosen, *(it for it in notes(advice) if it not in usual)])
    compare_views("notes", views)


def notes_about(advice: Advice, code: str, name: str = "core") -> list[dict[str, Any]]:
    (product,) = report_of(advice)["result"]["report"]["products"]
    told = [it for it in product["justification"] if it["code"] == code]
    return [it for it in told if it["package_name"] == name]


@pytest.mark.parametrize(
    ("manifest", "options"),
    [
        ("core\n", {}),
        ("core>=2.0rc1\n", {"published_before": DAY}),
        ("app\n", {"published_before": DAY}),
        ("core>1.5\n", {"published_before": DAY}),
        ("core\n", {"published_before": DAY, "prereleases": frozenset({"core"})}),
        ("core\n", {"published_before": DAY, "kind": RecommendationType.TESTING}),
        ("core>1.1\n", {"exclusions": (dependency("core==1.1"),)}),
    ],
)
def test_prereleases_that_were_requested_cause_no_note(
    manifest: str, options: dict[str, Any]
) -> None:
    assert (
        notes_about(advice_for(request_for(manifest, **options), PRERELEASES), "only_prereleases")
        == []
    )


def test_cooldown_excludes_recent_files_from_locks() -> None:
    """A wheel may be added to a release long after it came out."""
    advice = advice_for(request_for("app\n", published_before=DAY), PRERELEASES)
    files = {}
    for purl, (wheel, sdist) in known_for(advice).files.items():
        files[purl] = (
            replace(wheel, uploaded_at=DAY), replace(sdist, uploaded_at=DAY.replace(year=2024))
        )  # fmt: skip
    assert advice.best is not None
    for form in (LockFormat.REQUIREMENTS, LockFormat.PIPFILE_LOCK):
        text = lock_of(advice, advice.best, ReleaseKnowledge(files), form).data.decode()
        for wheel, sdist in files.values():
            assert str(sdist.sha256) in text
            assert str(wheel.sha256) not in text
    anytime = advice_for(request_for("app\n"), PRERELEASES)
    assert anytime.best is not None
    text = lock_of(
        anytime, anytime.best, ReleaseKnowledge(files), LockFormat.REQUIREMENTS
    ).data.decode()
    assert all(str(wheel.sha256) in text for wheel, _ in files.values())


def test_release_without_a_file_of_the_required_age_is_not_locked() -> None:
    advice = advice_for(request_for("app\n", published_before=DAY), PRERELEASES)
    report = report_of(advice, known_for(advice))["result"]
    assert report["error"] is True
    assert "from before 2025-01-01 is known" in report["error_msg"]


OLD_SDISTS: dict[str, Any] = {"sdist": True, "uploaded_at": "2020-01-01T00:00:00Z"}


def wheels(*pythons: int, platform: str = "manylinux1_x86_64") -> list[str]:
    return [f"cp3{it}-cp3{it}-{platform}" for it in pythons]


def messages(
    advice: Advice, index: Index, code: str, sizes: dict[str, int] | None = None
) -> list[str]:
    """Messages with a code, where an index lists a file for each wheel of the stack."""
    choices = advice.best.choices if advice.best else ()
    files = {
        it.purl: tuple(
            ReleaseFile(
                f"{it.name}-{it.version}-{tags}.whl", "ab" * 32, "wheel", (sizes or {}).get(it.name)
            )
            for tags in index[it.name][it.version].get("wheels", ["py3-none-any"])
        )
        for it in choices
    }
    report = report_of(advice, ReleaseKnowledge(files))["result"]["report"]
    return [it["message"] for it in report["stack_info"] if it["code"] == code]


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ("one\ntwo\nthree\n", "3 packages have wheels for Python 3.9"),
        ("one\ntwo\nelsewhere\n", "2 packages have wheels for Python 3.9"),
        ("one\nmodern\n", "1 package has wheels for Python 3.10"),
        ("three\nhelper\n", "1 package has wheels for Python 3.9"),
        ("three\nhelper>1\n", None),
        ("unbuilt<2\n", "1 package has wheels for Python 3.8"),
        ("elsewhere\nmodern\n", None),
    ],
)
def test_note_names_the_nearest_python_with_wheels_for_most_packages(
    manifest: str, message: str | None
) -> None:
    index: Index = {
        "one": {"1": {**OLD_SDISTS, "wheels": wheels(8, 9, 10)}},
        "two": {"1": {**OLD_SDISTS, "wheels": wheels(8, 9)}},
        "three": {"1": {**OLD_SDISTS, "wheels": wheels(9)}},
        "elsewhere": {"1": {**OLD_SDISTS, "wheels": wheels(9, platform="win_amd64")}},
        "modern": {"1": {"requires_python": ">=3.10"}},
        "helper": {"2": {"requires_python": ">=3.10"}, "1": {}},
        "unbuilt": {"2": {"wheels": wheels(10)}, "1": {"wheels": wheels(7, 8)}},
    }
    advice = advice_for(request_for(manifest), index)
    found = messages(advice, index, "other_python")
    assert [it.partition(",")[0] for it in found] == ([message] if message else [])
    if message:
        assert f": add `--python {message.split()[-1]}` (" in found[0]


def test_note_on_cpu_builds_names_the_size_of_unneeded_gpu_packages() -> None:
    linux = ["cp311-cp311-manylinux_2_28_x86_64", "cp311-cp311-manylinux_2_28_aarch64"]
    index: Index = {
        "torch": {"1": {"requires": ["nvidia-blas", "triton", "numpy"], "wheels": linux}},
        "nvidia-blas": {"1": {"requires": ["nvidia-link", "numpy"]}},
        "nvidia-link": {"1": {}},
        "triton": {"1": {}},
        "numpy": {"1": {}},
    }
    sizes = {
        "nvidia-blas": 2_000_000_000,
        "nvidia-link": 600_000_000,
        "triton": 100_000_000,
        "torch": 1,
        "numpy": 9_000_000_000,
    }
    request = request_for("torch\n")
    (message,) = messages(advice_for(request, index), index, "cuda_build", sizes)
    assert "the download of 3 packages (2.7 GB)" in message
    (message,) = messages(
        advice_for(request_for("torch\ntriton\n"), index), index, "cuda_build", sizes
    )
    assert "the download of 2 packages (2.6 GB)" in message
    assert messages(advice_for(request, index), index, "cuda_build") == []
    gpu = replace(request, environment=replace(request.environment, cuda="12.4"))
    assert messages(advice_for(gpu, index), index, "cuda_build", sizes) == []
    assert messages(advice_for(request_for("numpy\n"), index), index, "cuda_build", sizes) == []


ROOT = Path(__file__).parents[4]


def anchors(page: str) -> list[str]:
    return re.findall(r'<a id="([^"]+)"></a>', (ROOT / page).read_text(encoding="utf-8"))


def test_note_codes_are_distinct() -> None:
    codes = [*NoteCode, *RationaleCode, *JustificationCode, *map(project_code, WarningCode)]
    assert len(codes) == len(set(codes)) == len(PAGES)


def test_each_note_code_and_issue_links_to_its_documentation() -> None:
    links = [link_of(it) for it in PAGES]
    links += [
        str(ProvenanceIssue(it, NoteLevel.ERROR, "", "").document()["link"]) for it in IssueId
    ]
    for link in links:
        page, _, anchor = link.partition("#")
        assert anchors(page).count(anchor) == 1, link
    known = {*PAGES, *(it.value.lower() for it in IssueId)}
    assert {it for page in set(PAGES.values()) for it in anchors(page)} <= known
