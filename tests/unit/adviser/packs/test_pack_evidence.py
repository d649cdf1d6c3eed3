"""Packs: measured evidence, a policy that decides, and that they can be measured again."""

import json
import math
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from adviser.monkey.documents import NotInstallable
from adviser.packs.manifest import MeasuredWheel, session_days
from adviser.packs.pack_evidence import packed_evidence
from adviser.packs.pack_files import opened
from adviser.packs.pack_report import pack_report, report_markdown
from adviser.packs.repetition import agrees, chosen_cells, groups_between, specification_again
from adviser.packs.stored_packs import observations_of
from adviser.packs.trust import evidence_pack, parse_policy, read_policy, trust_of
from adviser.stack_comparison import StackGroup, compare_stacks
from api.pages.quality_report_view import pack_report_file
from cli.options import SHIPPED_PACK
from common.settings import Settings
from model.errors import InvalidFile, InvalidPack, InvalidSettings, Reason
from model.measurements.evidence import EvidencePack, MeasuredObservation
from model.packages.identity import package_version
from model.packages.native_libraries import CONTEXT
from pis.amun.specification import load_specification
from tests.factories.evidence import (
    ELSEWHERE,
    GAIN,
    HERE,
    NOW,
    STEP,
    Bench,
    bundling,
    jobs,
    measured,
    purl,
    series,
)
from tests.factories.packs import MEASURED_AT, pack_of


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


def test_pack_evidence_equals_the_packed_measurements(bench: Bench, tmp_path: Path) -> None:
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


def test_pack_session_does_not_end_at_midnight(tmp_path: Path) -> None:
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
def test_impossible_pack_value_is_refused(
    bench: Bench, tmp_path: Path, changes: dict[str, object]
) -> None:
    pack = opened(pack_of(bench.evidence(), tmp_path / "pack", **changes))
    with pytest.raises(InvalidPack) as refused:
        packed_evidence(pack, EvidencePack(pack.digest, "test pack"), [purl("fast==1")], NOW)
    assert refused.value.reason == Reason.OUT_OF_RANGE


def test_pack_report_compares_consecutive_releases(bench: Bench, tmp_path: Path) -> None:
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


def test_pack_report_names_differences_that_reverse_on_other_hardware(tmp_path: Path) -> None:
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


def test_pack_report_escapes_hostile_texts(bench: Bench, tmp_path: Path) -> None:
    lone = replace(bench.evidence(), readings=bench.evidence().readings[7:9])
    hostile = json.dumps({"operation": "<b>a|b</b>\n# c"})
    report = pack_report(opened(pack_of(lone, tmp_path / "pack", parameters=hostile)))
    assert "<b>" not in pack_report_file(report)
    assert "error unknown" in (page := report_markdown(report))
    assert r"|\<b\>a\|b\</b\> \# c|" in page


def test_documented_release_comparisons_come_from_the_bundled_pack() -> None:
    if not any(SHIPPED_PACK.glob("*.tar")):
        pytest.skip("no pack ships with this version")
    page = (SHIPPED_PACK.parent / "docs" / "evidence.md").read_text(encoding="utf-8")
    assert page == report_markdown(pack_report(opened(SHIPPED_PACK)))


KEY = "sha256:" + "5" * 64
TODAY = MEASURED_AT.date()
POLICY = f'[[rules]]\nkey = "{KEY}"\n'


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory):
    return opened(pack_of(measured().evidence(), tmp_path_factory.mktemp("pack"))).manifest


@pytest.mark.parametrize(
    ("rule", "key", "today", "reason"),
    [
        ("", KEY, TODAY, None),
        ("", None, TODAY, "nobody signed it"),
        ("", "sha256:" + "6" * 64, TODAY, "does not trust its key"),
        ("max_age_days = 30", KEY, TODAY + timedelta(days=31), "31 days ago"),
        ("", KEY, TODAY - timedelta(days=2), "in the future"),
        ("min_sessions = 3", KEY, TODAY, "2 sessions"),
        ('indicators = ["PiConv*"]', KEY, TODAY, "other indicators"),
        ('classes = ["sha256:cccccccc"]', KEY, TODAY, "other hardware classes"),
    ],
)
def test_pack_decides_only_if_the_policy_trusts_its_key(
    manifest, rule: str, key: str | None, today: date, reason: str | None
) -> None:
    policy = parse_policy((POLICY + rule).encode(), "packs.toml")
    pack = evidence_pack(manifest, key, policy, today)
    trust = trust_of(pack, policy)
    assert trust.decides == (pack.problem is None) == (reason is None)
    assert (reason or "trusts its key") in trust.reason


def test_pack_decides_only_on_hardware_classes_that_the_policy_lists(manifest) -> None:
    policy = f'{POLICY}classes = ["{ELSEWHERE[:20]}"]'.encode()
    pack = evidence_pack(manifest, KEY, parse_policy(policy, "packs.toml"), TODAY)
    assert (pack.problem, pack.hardware) == (None, (ELSEWHERE,))


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("rule = 1", "rule"),
        ('[[rules]]\nkey = "x"', "rules[0].key"),
        ("[[rules]]\nmin_jobs = 9", "rules[0].key"),
        (f"{POLICY}min_job = 9", "rules[0].min_job"),
        (f"{POLICY}min_jobs = 1", "rules[0].min_jobs"),
        (f"{POLICY}indicators = []", "rules[0].indicators"),
        (f'{POLICY}classes = ["{KEY[:12]}"]', "rules[0].classes[0]"),
        (POLICY + POLICY, "rules[1].key"),
    ],
)
def test_invalid_pack_policy_is_refused_with_its_field(text: str, field: str) -> None:
    with pytest.raises(InvalidFile) as refused:
        parse_policy(text.encode(), "packs.toml")
    assert (refused.value.place, refused.value.field) == ("packs.toml", field)


def test_bundled_pack_policy_is_valid() -> None:
    assert read_policy(Settings.from_env({})).source == "the bundled packs.toml"


def test_missing_pack_policy_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings):
        read_policy(replace(Settings.from_env({}), packs_policy=tmp_path / "packs.toml"))


@pytest.fixture
def observed(tmp_path: Path) -> list[MeasuredObservation]:
    """Three indicators with three stacks each, one of them on another class."""
    bench = Bench()
    for how in (series("PiMatmul"), series("PiConv2D"), series("PiGemm", ELSEWHERE)):
        for number in range(3):
            stack = bench.stack(f"numpy==2.{number}.0")
            bench.measure(stack, jobs(0.1 * number, seed=number), how)
    pack = opened(pack_of(bench.evidence(), tmp_path / "pack"))
    purls = {it for stack in bench.stacks.values() for it in stack}
    evidence = packed_evidence(pack, EvidencePack(pack.digest, "pack"), purls, NOW)
    return list(observations_of(pack.manifest, evidence))


@pytest.fixture
def groups(observed: list[MeasuredObservation]) -> list[StackGroup]:
    return compare_stacks(observed)


def test_pack_repetition_covers_this_hardware_and_many_indicators(groups: list[StackGroup]) -> None:
    cells = chosen_cells(groups, HERE, 2, "seed")
    assert {it.group.indicator for it in cells} == {"PiMatmul", "PiConv2D"}
    assert cells == chosen_cells(list(reversed(groups)), HERE, 2, "seed")
    assert len(chosen_cells(groups, HERE, 99, "seed")) == 4
    assert chosen_cells(groups, "sha256:0", 5, "seed") == []


def test_pack_repetition_may_compare_two_chosen_versions(
    observed: list[MeasuredObservation],
) -> None:
    old, new = {"numpy": "2.2.0", "other": "1"}, {"numpy": "2.1", "new": "2"}
    cells = chosen_cells(groups_between(observed, old, new), HERE, None, "seed")
    assert {it.group.indicator for it in cells} == {"PiMatmul", "PiConv2D"}
    for cell in cells:
        assert [*map(str, cell.stack.differing_packages)] == ["numpy 2.2.0 → 2.1.0"]
        assert cell.comparison.d < 0


def test_repeated_measurement_agrees_within_the_interval_of_the_difference(
    groups: list[StackGroup],
) -> None:
    comparison = replace(
        chosen_cells(groups, HERE, 1, "seed")[0].comparison,
        d=0.0, interval_low_pct=-1.0, interval_high_pct=1.0,
    )  # fmt: skip
    for effect, agreeing in ((1.2, True), (-1.2, True), (1.6, False)):
        assert agrees(comparison, replace(comparison, d=math.log1p(effect / 100))) is agreeing


def test_stack_is_installed_with_the_hashes_of_the_pack(tmp_path: Path) -> None:
    bench = Bench()
    bench.measure(bench.stack("numpy==2.1.0"), jobs())
    manifest = opened(pack_of(bench.evidence(), tmp_path / "pack")).manifest
    packages = [package_version("numpy", "2.1.0")]
    with pytest.raises(NotInstallable):
        specification_again(manifest, packages, "matmul", {}, "3.11")
    manifest = replace(manifest, wheels=(MeasuredWheel(packages[0].purl, ("a" * 64,)),))
    document = specification_again(manifest, packages, "matmul", {"matrix_size": 64}, "3.11")
    (package,) = load_specification(document).lock.packages
    assert package.hashes == ("sha256:" + "a" * 64,)
