"""A report on a terminal: what a person has to see is there, and nothing else gets through."""

from __future__ import annotations

import io
import os
from contextlib import redirect_stdout
from dataclasses import replace
from typing import Any
from unittest import mock

from adviser.advise import advise
from cli.report_view import (
    certificate_line,
    coverage_lines,
    packages_table,
    print_report,
)
from model.measurements.evidence import ADVISORIES
from model.packages.candidates import KnownVulnerability
from tests.factories.reports import kept, report_of
from tests.factories.requests import NOTHING, advice_for, request_for, snapshot_for


def shown(report: dict[str, Any], width: int = 120, **options: bool) -> str:
    """What is printed where ``COLUMNS`` is ``width``."""
    with mock.patch.dict(os.environ, COLUMNS=str(width)), redirect_stdout(io.StringIO()) as out:
        print_report(report, **options)
    return out.getvalue()


def test_a_row_has_yours_advised_and_why() -> None:
    files = {"requirements.in": "web\ntool\n", "requirements.txt": "web==1.0\ntool==1.0\n"}
    text = shown(report_of(advice_for(request_for(files=files))))
    (row,) = [line for line in text.splitlines() if line.startswith("core")]
    assert row.split()[:3] == ["core", "–", "1.1"]
    assert "tool 1.0 requires core<2" in row
    (row,) = [line for line in text.splitlines() if line.startswith("web")]
    assert row.split()[:3] == ["web", "1.0", "2.0"]


def test_many_extras_take_lines_of_their_own() -> None:
    extras = ["cublas", "cudart", "cufft", "cufile", "cupti", "curand"]
    product = report_of(advice_for(request_for("web\n")))["result"]["report"]["products"][0]
    (web, *_) = (it for it in product["packages"] if it["name"] == "web")
    table = packages_table({**product, "packages": [{**web, "extras": extras}]})
    (row,) = table.rows
    assert row[0] == "web[cublas,cudart,cufft,cufile,\n  cupti,curand]"


def test_a_criterion_that_rounds_to_zero_is_shown_as_zero() -> None:
    report = report_of(advice_for())
    criterion = report["result"]["report"]["products"][0]["criteria"][0]
    criterion |= {"value": -0.00001, "contribution": -0.0}
    text = shown(report, verbose=True)
    (row,) = [it for it in text.splitlines() if it.split()[:1] == [criterion["name"]]]
    assert row.split()[2:4] == ["0", "0"]


def test_without_advisories_the_value_of_vulnerabilities_is_unknown() -> None:
    report = report_of(advice_for(evidence=replace(NOTHING, sources={ADVISORIES: None})))
    criteria = report["result"]["report"]["products"][0]["criteria"]
    assert {it["name"] for it in criteria if it["value"] is None} == {"security"}
    (row,) = [it for it in shown(report, verbose=True).splitlines() if it.startswith("security")]
    assert row.split()[2:4] == ["unknown", "0"]


def test_criteria_that_are_all_zero_take_one_line() -> None:
    report = report_of(advice_for())
    product = report["result"]["report"]["products"][0]
    product["score"] = 0.0
    for criterion in product["criteria"]:
        criterion |= {"value": 0.0, "contribution": -0.0}
    text = shown(report, verbose=True)
    assert "score: 0 points, all criteria are 0" in text
    assert "contribution" not in text


def test_criteria_notes_and_certificate_are_shown() -> None:
    text = shown(report_of(advice_for()), verbose=True)
    for words in (
        "freshness",
        "score",
        "info: resolved for CPython",
        "optimal: score -",
        "branch and bound 2; in 10 ms",
    ):
        assert words in text


def test_a_loss_that_decided_shows_its_measurement() -> None:
    text = shown(report_of(kept()), 200)
    (row,) = [line for line in text.splitlines() if line.startswith("fast")]
    assert "2 is 49.2 % faster than 3 in PiMatmul (95 % interval 48.6 to 49.8 %)" in row
    assert "slower" not in row, "a fact has one number"


def test_a_vulnerability_that_decided_is_named() -> None:
    request = request_for("core\n")
    snap = snapshot_for(request)
    newest, *rest = snap.packages["core"]
    harm = KnownVulnerability("CVE-2024-1", "critical")
    harmful = replace(newest, vulnerabilities=(harm,))
    snap = replace(snap, packages={**snap.packages, "core": (harmful, *rest)})
    text = shown(report_of(advise(request, snap, NOTHING)), 200)
    (row,) = [line for line in text.splitlines() if line.startswith("core")]
    assert row.split()[1] == "1.1"
    assert "2.0 scores 1.00 points less for security" in row
    assert "core 2.0 is affected by CVE-2024-1 (critical)" in row


def test_what_was_asked_of_the_indexes_just_now_is_not_to_be_asked_again() -> None:
    report = report_of(advice_for(request_for("web\nnowhere\n")))
    text = shown(report, 200, fetched=True)
    assert "warning: not in the store: nowhere" in text.splitlines()
    assert "--fetch" not in text
    assert "--fetch" in shown(report, 200)


def test_many_missing_packages_are_one_line() -> None:
    names = [f"none{number:02}" for number in range(40)]
    text = shown(report_of(advice_for(request_for("web\n" + "\n".join(names)))), 300, offline=True)
    (line,) = [it for it in text.splitlines() if "required packages are missing" in it]
    assert line.startswith("error: 40 required packages are missing: none00, none01")
    assert line.endswith("none04 and 35 more")
    assert sum(it.startswith("error: none") for it in text.splitlines()) == 0
    assert "`thoth advise` without `--offline` reads them first" in text
    assert "--fetch" not in text


def test_versions_that_the_environment_excludes_are_known_too() -> None:
    line = certificate_line(report_of(advice_for(request_for("old>=2\n"))))
    assert line.startswith("infeasible among the 2 known versions; ")


def test_the_day_of_what_is_known_is_shown() -> None:
    text = shown(report_of(kept()), 300)
    assert "info: as of 2026-01-01; last update of each source: pypi 2026-01-01" in text


def test_the_nearest_measured_stack_is_for_those_who_ask_for_details() -> None:
    report = report_of(kept())
    assert "coverage: " not in shown(report, 300)
    text = shown(report, 300, verbose=True)
    assert "coverage: this stack was measured: 20 stable jobs on this class" in text


def test_a_nearest_stack_that_differs_is_reported_with_its_packages() -> None:
    differs = [{"name": it, "ours": "2.0", "theirs": "1.0"} for it in "abcdefghijk"]
    nearest = {"differences": differs, "jobs": 1, "hardware_label": "this class"}
    more, line = coverage_lines({"measured_elsewhere": 2, "nearest": nearest})
    assert more == "coverage: 2 more packages were measured on other hardware"
    assert line.startswith(
        "coverage: the nearest measured stack has 1 stable job on this class and differs in 11"
        " packages: a 1.0 instead of 2.0, b"
    )
    assert line.endswith("j 1.0 instead of 2.0, …")


def test_that_there_is_nothing_to_change_to_is_reported_first() -> None:
    files = {"requirements.in": "core\n", "requirements.txt": "core==2.0\n"}
    text = shown(report_of(advice_for(request_for(files=files))))
    assert text.splitlines()[0] == "Keep your versions: no stack is better."


def test_every_stack_has_its_number() -> None:
    text = shown(report_of(advice_for(request_for(count=2))))
    assert text.count("Stack 1") == text.count("Stack 2") == 1


def test_a_conflict_is_reported_step_by_step_and_once() -> None:
    text = shown(report_of(advice_for(request_for("web>=3\ntool\n"))))
    assert text.count("tool 1.0 requires core<2") == 1
    assert "No stack meets the request:" in text
    assert "1. you ask for" in text


def test_what_a_document_says_cannot_steer_the_terminal() -> None:
    report = report_of(advice_for())
    product = report["result"]["report"]["products"][0]
    product["packages"][0]["why"]["message"] = "red\x1b[31m [bold]"
    report["result"]["report"]["stack_info"][0]["message"] = "\x1b]0;title\x07"
    text = shown(report)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[bold]" in text


def test_a_certificate_without_a_proof_says_its_bound() -> None:
    report = report_of(advice_for())
    report["result"]["report"]["certificate"] |= {
        "status": "feasible", "bound": [0, 0, 0, -9], "objective": [0, -5, 0, -9],
        "gap": [0, 5, 0, 0],
    }  # fmt: skip
    assert certificate_line(report).startswith(
        "feasible: score -0.0014, bound -0.0009, open in newness of web; model "
    )


def test_a_certificate_of_a_search_without_a_model_has_no_empty_fields() -> None:
    report = report_of(advice_for())
    nothing = {"status": "unknown", "model": "", "solver": ""}
    report["result"]["report"]["certificate"] |= nothing
    line = certificate_line(report)
    assert line.startswith("unknown; snapshot ")
    assert "model" not in line
    assert ", ;" not in line
