"""A report on a terminal: what a person has to see is there, and nothing else gets through."""

import io
import os
import re
from contextlib import redirect_stdout
from dataclasses import replace
from typing import Any
from unittest import mock

from adviser.advise import advise
from adviser.reports.unfetched_versions import missing_packages
from cli.advise import certificate_line, coverage_lines, packages_table, print_report
from model.measurements.evidence import ADVISORIES
from model.packages.candidates import KnownVulnerability
from tests.factories.golden import compare_views
from tests.factories.reports import kept, report_of
from tests.factories.requests import NOTHING, advice_for, request_for, snapshot_for

#: Digests differ whenever a document has one more field.
DIGEST = re.compile(r"\b[0-9a-f]{8,64}\b")


def shown(report: dict[str, Any], width: int = 120, **options: Any) -> str:
    """What is printed where ``COLUMNS`` is ``width``."""
    with mock.patch.dict(os.environ, COLUMNS=str(width)), redirect_stdout(io.StringIO()) as out:
        print_report(report, **options)
    return out.getvalue()


def shown_after(requirements: str, *, fetch: bool) -> str:
    """What is printed of missing packages after ``--fetch`` or ``--offline``."""
    advice = advice_for(request_for(requirements))
    missing = missing_packages(advice.request, advice.snapshot)
    assert missing is not None
    return shown(report_of(advice), 200, texts={missing.message(): missing.message(fetch)})


def zero() -> dict[str, Any]:
    """A report whose criteria are all zero."""
    report = report_of(advice_for())
    product = report["result"]["report"]["products"][0]
    product["score"] = 0.0
    for criterion in product["criteria"]:
        criterion |= {"value": 0.0, "contribution": -0.0}
    return report


def rounded() -> dict[str, Any]:
    """A report with a criterion that rounds to zero."""
    report = report_of(advice_for())
    criterion = report["result"]["report"]["products"][0]["criteria"][0]
    criterion |= {"value": -0.00001, "contribution": -0.0}
    return report


def vulnerable() -> dict[str, Any]:
    """A report of a project whose newest version is vulnerable."""
    request = request_for("core\n")
    snap = snapshot_for(request)
    newest, *rest = snap.packages["core"]
    harmful = replace(newest, vulnerabilities=(KnownVulnerability("CVE-2024-1", "critical"),))
    packages = {**snap.packages, "core": (harmful, *rest)}
    return report_of(advise(request, replace(snap, packages=packages), NOTHING))


def locked(manifest: str, lock: str) -> dict[str, Any]:
    files = {"requirements.in": manifest, "requirements.txt": lock}
    return report_of(advice_for(request_for(files=files)))


def certified(**changes: object) -> dict[str, Any]:
    """A report whose certificate was changed."""
    report = report_of(advice_for())
    report["result"]["report"]["certificate"] |= changes
    return report


def many_extras() -> str:
    product = report_of(advice_for(request_for("web\n")))["result"]["report"]["products"][0]
    web = next(it for it in product["packages"] if it["name"] == "web")
    web["extras"] = ["cublas", "cudart", "cufft", "cufile", "cupti", "curand"]
    return packages_table({**product, "packages": [web]}).rows[0][0]


def far() -> list[str]:
    """Coverage where many packages separate the nearest measured stack."""
    differs = [{"name": it, "ours": "2.0", "theirs": "1.0"} for it in "abcdefghijk"]
    nearest = {"differences": differs, "jobs": 1, "hardware_label": "this class"}
    return list(coverage_lines({"measured_elsewhere": 2, "nearest": nearest}))


def test_advice_report_shows_versions_reasons_and_warnings() -> None:
    names = [f"none{number:02}" for number in range(40)]
    missing = report_of(advice_for(request_for("web\nnowhere\n")))
    unknown = replace(NOTHING, sources={ADVISORIES: None})
    views = {
        "newer versions": shown(locked("web\ntool\n", "web==1.0\ntool==1.0\n")),
        "nothing to change to": shown(locked("core\n", "core==2.0\n")),
        "details": shown(report_of(advice_for()), verbose=True),
        "criteria that are all zero": shown(zero(), verbose=True),
        "a criterion that rounds to zero": shown(rounded(), verbose=True),
        "without advisories": shown(report_of(advice_for(evidence=unknown)), verbose=True),
        "a measurement that decided": shown(report_of(kept()), 200),
        "the nearest measured stack": shown(report_of(kept()), 200, verbose=True),
        "a vulnerability that decided": shown(vulnerable(), 200),
        "several stacks": shown(report_of(advice_for(request_for(count=2)))),
        "a conflict": shown(report_of(advice_for(request_for("web>=3\ntool\n")))),
        "versions that the environment excludes": shown(
            report_of(advice_for(request_for("old>=2\n"))), verbose=True
        ),
        "a package that is missing": shown(missing, 200),
        "a package that the indexes lack": shown_after("web\nnowhere\n", fetch=True),
        "many packages that are missing": shown_after("\n".join(["web", *names]), fetch=False),
        "the nearest stack is far": "\n".join(far()),
        "many extras": many_extras(),
        "a certificate without a proof": certificate_line(
            certified(
                status="feasible", bound=[0, 0, 0, -9], objective=[0, -5, 0, -9], gap=[0, 5, 0, 0]
            )
        ),
        "a certificate without a model": certificate_line(
            certified(status="unknown", model="", solver="")
        ),
    }
    compare_views("reports", {key: DIGEST.sub("DIGEST", it) for key, it in views.items()})


def test_control_characters_in_a_report_do_not_reach_the_terminal() -> None:
    report = report_of(advice_for())
    product = report["result"]["report"]["products"][0]
    product["packages"][0]["why"]["message"] = "red\x1b[31m [bold]"
    report["result"]["report"]["stack_info"][0]["message"] = "\x1b]0;title\x07"
    text = shown(report)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[bold]" in text
