"""The evidence of a pack is what was measured, and nothing in its tables can crash a reader."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from adviser.packs.manifest import session_days
from adviser.packs.pack_evidence import packed_evidence
from adviser.packs.pack_files import opened
from adviser.packs.pack_report import pack_report, report_markdown
from api.pages.report_view import pack_report_file
from cli.options import SHIPPED_PACK
from model.errors import InvalidPack, Reason
from model.measurements.evidence import EvidencePack
from model.packages.native_libraries import CONTEXT
from tests.factories.evidence import (
    ELSEWHERE,
    GAIN,
    HERE,
    NOW,
    STEP,
    Bench,
    bundling,
    jobs,
    purl,
    series,
)
from tests.factories.packs import pack_of


@pytest.fixture
def bench() -> Bench:
    """Two releases on two hardware classes, and a stack of another package."""
    bench = Bench()
    for hardware in (HERE, ELSEWHERE):
        how = series(hardware=hardware, parameters={"operation": "sort"})
        for version, gain in (("1", 0.0), ("2", GAIN)):
            stack = bench.stack(f"fast=={version}", "rest==1")
            for day in (1, 2):  # with a boot of its own for every other job
                begin, blocks = NOW + timedelta(days=day), [f"{day}:{turn}" for turn in range(4)]
                rates = jobs(gain, seed=int(version))[4 * day - 4 : 4 * day]
                bench.measure(stack, rates, how, begin=begin, blocks=blocks, run=str(day))
    bench.measure(bench.stack("other==1"), jobs(), series())
    return bench


def test_what_a_pack_has_of_a_package_is_what_was_measured(bench: Bench, tmp_path: Path) -> None:
    pack = opened(pack_of(bench.evidence(), tmp_path / "pack"))
    about = EvidencePack(pack.digest, "test pack")
    every = packed_evidence(pack, about, [purl("fast==1"), purl("fast==2")], NOW)
    here = packed_evidence(pack, about, [purl("fast==2")], NOW, [HERE])
    expected = bench.evidence()
    rates = {it.observation_id: it.rate for it in expected.readings[:32]}
    assert {it.observation_id: it.rate for it in every.readings} == rates
    assert {it.comparison_key for it in every.series} == {
        it.comparison_key for it in expected.series[:2]
    }
    assert {it.origin for it in every.series} == {pack.digest}
    assert every.packs == (about,)
    assert {it.hardware_digest for it in here.series} == {HERE}
    assert [*here.stacks.values()] == [tuple(sorted(map(purl, ("fast==2", "rest==1"))))]


def test_jobs_that_go_on_after_midnight_are_of_one_session(tmp_path: Path) -> None:
    late = NOW.replace(hour=21)
    for begin, sessions in ((late, 1), (late + timedelta(days=2), 2)):
        bench = Bench()
        for day, first in enumerate((late, begin + timedelta(hours=4))):
            rates, blocks = jobs()[:4], [f"{day}:{turn}" for turn in range(4)]
            bench.measure(bench.stack("fast==1"), rates, begin=first, blocks=blocks, run=str(day))
        pack = opened(pack_of(bench.evidence(), tmp_path / str(sessions), boot="b"))
        found = packed_evidence(pack, EvidencePack(pack.digest, "x"), [purl("fast==1")], NOW)
        assert len({it.session for it in found.readings}) == sessions
    ends = [late + timedelta(hours=it) for it in (0, 4, 9)]
    assert [*session_days(ends).values()] == [None, "2026-01-01", "2026-01-01", "2026-01-02"]


@pytest.mark.parametrize(
    "changes",
    [
        {"rate": -1.0},
        {"rate": None},
        {"parameters": "[}"},
        {"unit": "furlong"},
        {"parameters": "[" * 100_000},
        {"indicator": "unnamed in the manifest"},
    ],
)
def test_a_value_that_cannot_be_refuses_the_pack(
    bench: Bench, tmp_path: Path, changes: dict[str, object]
) -> None:
    pack = opened(pack_of(bench.evidence(), tmp_path / "pack", **changes))
    with pytest.raises(InvalidPack) as refused:
        packed_evidence(pack, EvidencePack(pack.digest, "test pack"), [purl("fast==1")], NOW)
    assert refused.value.reason == Reason.OUT_OF_RANGE


def test_a_report_compares_each_release_with_the_one_before(bench: Bench, tmp_path: Path) -> None:
    pack = opened(pack_of(bundling(bench.evidence()), tmp_path / "pack"))
    report = pack_report(pack)
    assert report.context == {"fast": [f"{STEP} ({CONTEXT})"]}
    (step,), (elsewhere,) = report.steps["fast"], report.elsewhere["another class"]
    assert (step.releases, step.claim.verdict.value, step.claim.batches) == ("1 → 2", "faster", 4)
    assert elsewhere.what == step.what
    assert report.summary[-1] == (
        "On another class, measured in 4 sessions, 1 of 1 difference agree with these within both"
        " 95 % intervals. Of 1 that are settled here, 0 clearly went the other way there."
    )
    page = report_markdown(report)
    assert pack.digest in page
    assert f"- {STEP} (" in page
    assert STEP in pack_report_file(report)
    assert "|operation|1 → 2|" in page
    assert "|sort|**+30.0 (" in page
    assert "<td><strong>+30.0 (" in pack_report_file(report)


def test_differences_that_turn_on_other_hardware_are_named(tmp_path: Path) -> None:
    bench = Bench()
    for hardware, gain, sessions in ((HERE, GAIN, 3), (ELSEWHERE, -GAIN, 1)):
        for version, level in (("1", 0.0), ("2", gain)):
            for day in range(sessions):
                begin, blocks = NOW + timedelta(days=day), [f"{day}:{turn}" for turn in range(7)]
                rates = jobs(level, 7, seed=int(version))
                how = series(hardware=hardware, parameters={"operation": "sort"})
                stack = bench.stack(f"fast=={version}")
                bench.measure(stack, rates, how, begin=begin, blocks=blocks, run=str(day))
    report = pack_report(opened(pack_of(bench.evidence(), tmp_path / "pack")))
    assert report.hardware == "this class"
    assert "1 clearly went the other way there: fast 1 → 2 sort (+" in report.summary[-1]


def test_unbounded_and_hostile_texts_do_no_harm_to_a_report(bench: Bench, tmp_path: Path) -> None:
    lone = replace(bench.evidence(), readings=bench.evidence().readings[7:9])
    hostile = json.dumps({"operation": "<b>a|b</b>\n# c"})
    report = pack_report(opened(pack_of(lone, tmp_path / "pack", parameters=hostile)))
    assert "<b>" not in pack_report_file(report)
    assert "error unknown" in (page := report_markdown(report))
    assert r"|\<b\>a\|b\</b\> \# c|" in page


def test_the_page_about_releases_is_the_report_of_the_pack_that_ships() -> None:
    if not any(SHIPPED_PACK.glob("*.tar")):
        pytest.skip("no pack ships with this version")
    page = (SHIPPED_PACK.parent / "docs" / "evidence.md").read_text(encoding="utf-8")
    assert page == report_markdown(pack_report(opened(SHIPPED_PACK)))
