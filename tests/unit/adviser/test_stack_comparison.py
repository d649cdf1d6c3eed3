"""Observations into groups, baselines and verdicts."""

import io
import json
import math
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from adviser.scoring.assessment_types import Claim
from adviser.scoring.claim_texts import ClaimTexts
from adviser.scoring.comparisons import smallest_difference
from adviser.scoring.histories import histories_of
from adviser.scoring.performance import performance_of
from adviser.scoring.stack_pairs import MeasuredStacks
from adviser.scoring.target import Target
from adviser.stack_comparison import (
    RECENT_INSPECTIONS,
    StackGroup,
    UnknownBaseline,
    compare_stacks,
    identical_pairs,
)
from adviser.stacks_document import stacks_document
from cli.stacks import group_notes, group_table, short_group_titles
from model.measurements.evidence import (
    UNKNOWN_STACK,
    Evidence,
    MeasuredObservation,
    Reading,
    Series,
)
from model.measurements.units import Unit
from model.packages.identity import package_version
from tests.factories.evidence import purl
from tests.factories.golden import compare_views
from tests.factories.universes import snapshot_of

OLD, NEW, PRE = "sha256:aa01" + "0" * 60, "sha256:aa02" + "0" * 60, "sha256:bb03" + "0" * 60


def observed(job_id: str, rate: float, **changes: Any) -> MeasuredObservation:
    """What the store would give, with sensible defaults."""
    told: dict[str, Any] = {
        "stack_digest": NEW, "component": "tensorflow", "component_version": "2.10.0",
        "hardware_label": "Xeon [4 cores]", **changes,
    }  # fmt: skip
    series: dict[str, Any] = {
        "comparison_key": "sha256:dd", "indicator": "PiMatmul",
        "script_sha256": "3e2b7fa1" + 56 * "0", "parameters": {"dtype": "float32"},
        "device": "cpu", "unit": Unit.FLOP_PER_SECOND, "hardware_digest": "sha256:cc" + "0" * 62,
        "python_version": None,
    }  # fmt: skip
    reading: dict[str, Any] = {
        "observation_id": job_id, "document_id": f"sha256:{job_id}", "unstable_reason": None,
        "host": None, "block": None, "seen_at": None,
    }  # fmt: skip
    return MeasuredObservation(
        series=Series(**{key: told.get(key, value) for key, value in series.items()}),
        reading=Reading(
            series=0, stack=told["stack_digest"] or UNKNOWN_STACK, job_id=job_id, rate=rate,
            **{key: told.get(key, value) for key, value in reading.items()},
        ),
        hardware_label=told["hardware_label"],
        component=told["component"],
        component_version=told["component_version"],
        packages=tuple(package_version(*it) for it in told.get("packages", ())),
    )  # fmt: skip


def but(it: MeasuredObservation, **changes: Any) -> MeasuredObservation:
    """The same with another reading."""
    return replace(it, reading=replace(it.reading, **changes))


def jobs(rate: float, count: int = 5, **changes: Any) -> list[MeasuredObservation]:
    """``count`` jobs around ``rate`` FLOP/s, within 1 %."""
    name = f"{changes.get('stack_digest', NEW)}-{rate}"
    steps = [1 + 0.01 * (2 * i / max(1, count - 1) - 1) for i in range(count)]
    return [observed(f"{name}-{i}", rate * x, **changes) for i, x in enumerate(steps)]


OLDER: dict[str, Any] = {"stack_digest": OLD, "component_version": "2.9.3"}


def only(groups: list[StackGroup]) -> StackGroup:
    (group,) = groups
    return group


def verdicts(group: StackGroup) -> dict[str, str]:
    return {s.label: str(s.comparison.verdict) for s in group.stacks if s.comparison}


def test_reference_measured_more_often_settles_more_comparisons() -> None:
    """Twenty candidates, one of which is 10 % faster; five jobs of the reference in each turn."""
    fast = f"sha256:{7:064x}"
    found = {"reference": 0, "newest": 0}
    for seed in range(12):
        draw = random.Random(seed)
        rows = [
            observed(
                f"{stack}-{turn}-{n}", math.exp(20 + draw.gauss(0.0953 * (stack == 7), 0.05)),
                host="h", block=f"run:{turn}", stack_digest=f"sha256:{stack:064x}",
                component_version=f"2.{stack}.0", document_id=f"sha256:{stack}",
            )
            for turn in range(10)
            for stack in range(21)
            for n in range(1 if stack else 5)
        ]  # fmt: skip
        for name, baseline in (("reference", None), ("newest", "newest")):
            (stack,) = (it for it in only(compare_stacks(rows, baseline)).stacks
                        if it.stack_digest == fast)  # fmt: skip
            found[name] += str(stack.comparison and stack.comparison.verdict) == "faster"
    assert found["reference"] > found["newest"]
    assert found["reference"] >= 9


@pytest.mark.parametrize("prefix", ["aa01", "sha256:aa01"])
def test_baseline_of_a_stack_comparison_can_be_requested(prefix: str) -> None:
    elsewhere = jobs(1e9, comparison_key="sha256:ee", indicator="PiConv2D")
    conv, matmul = compare_stacks(jobs(1e9) + jobs(2e9, **OLDER) + elsewhere, prefix)
    assert (matmul.baseline.stack_digest, matmul.baseline_reason) == (OLD, "as requested")
    assert verdicts(matmul) == {"tensorflow 2.10.0 (aa020000)": "slower"}
    assert conv.baseline_reason.endswith(f"{prefix} was not measured here")


@pytest.mark.parametrize(("prefix", "words"), [("ff", "starts with"), ("aa", "more than one")])
def test_ambiguous_baseline_is_refused(prefix: str, words: str) -> None:
    with pytest.raises(UnknownBaseline, match=words):
        compare_stacks(jobs(1e9) + jobs(2e9, **OLDER), prefix)


def advised(rows: list[MeasuredObservation]) -> Claim:
    """What advice says about the two stacks of the rows."""
    stacks = {NEW: (purl("tensorflow==2.10.0"),), OLD: (purl("tensorflow==2.9.3"),)}
    series = replace(rows[0].series, python_version="3.11")
    evidence = Evidence(DAY, (series,), tuple(row.reading for row in rows), stacks)
    (claim,) = performance_of(
        evidence, MeasuredStacks(snapshot_of({}, []), evidence), {"tensorflow": stacks[NEW][0]},
        {"tensorflow": {it for them in stacks.values() for it in them}},
        Target(series.hardware_digest, "3.11"),
    ).claims  # fmt: skip
    return claim


def test_advice_and_stacks_command_exclude_identical_jobs() -> None:
    """Paired jobs of two stacks, of which some are unstable and so leave others alone."""
    reasons = {NEW: {0: "throttled", 1: "spread"}, OLD: {1: "spread", 5: "steal"}}
    rows = [
        but(row, host="h1", block=str(n), unstable_reason=reasons[row.reading.stack].get(n))
        for several in (jobs(1e9, 12), jobs(1.3e9, 12, **OLDER))
        for n, row in enumerate(several)
    ]
    group = only(compare_stacks(rows))
    counts = {"spread": 2, "steal": 1, "throttled": 1, "unpaired": 2}
    older, newest = group.stacks
    assert older.left_out == counts
    assert newest.left_out == {"spread": 1, "throttled": 1}
    assert stacks_document([group])["groups"][0]["stacks"][0]["left_out"] == counts
    claim = advised(rows)
    assert claim.left_out == counts
    text = "2 with scattered repetitions, 1 with stolen CPU time, 1 throttled, 2 without a partner"
    assert text in ClaimTexts([claim]).justification(claim).message
    assert f"  {older.label}: {text}" in [it.text for it in group_notes(group, verbose=True)]
    assert list(group_notes(group)) == []


def test_comparison_does_not_depend_on_the_order_of_observations() -> None:
    rows = jobs(1e9) + jobs(2e9, **OLDER) + jobs(5e9, stack_digest=None)
    assert compare_stacks(rows[::-1]) == compare_stacks(rows)


def shown(group: StackGroup, width: int = 160, *, verbose: bool = False) -> str:
    out = io.StringIO()
    (title,) = short_group_titles([group])
    group_table(group, title, verbose=verbose).print(out, width=width)
    return out.getvalue()


def test_comparison_group_title_has_only_distinguishing_parameters() -> None:
    groups = compare_stacks(
        jobs(1e9, comparison_key="sha256:d1", parameters={"dtype": "float32", "size": 64})
        + jobs(1e9, comparison_key="sha256:d2", parameters={"dtype": "float32", "size": 128})
    )
    assert sorted(short_group_titles(groups)) == [
        f"PiMatmul of tensorflow, size {size}, on Xeon [4 cores]" for size in (128, 64)
    ]


def test_comparison_document_is_json_with_null_for_unknown_values() -> None:
    rows = jobs(1e9) + jobs(2e9, 1, **OLDER) + jobs(5e9, stack_digest=None)
    document = stacks_document(compare_stacks(rows), hidden_groups=2)
    json.dumps(document, allow_nan=False)
    assert (document["version"], document["hidden_groups"]) == (2, 2)
    (group,) = document["groups"]
    assert group["baseline"]["stack_digest"] == NEW
    (single,) = [s for s in group["stacks"] if s["stack_digest"] == OLD]
    assert single["comparison"]["verdict"] == "undetermined"
    assert single["comparison"]["jobs_missing"] == 4
    assert single["comparison"]["interval_low_pct"] is None
    assert single["comparison"]["difference_pct"] == pytest.approx(98.0, abs=0.1)
    assert len(group["unknown_stacks"]) == 1


def test_short_history_lists_the_latest_inspections_in_order_of_time() -> None:
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [
        observed(
            f"{day}-{job}", 1e9 * (day + job + 1), document_id=f"sha256:{99 - day}",
            seen_at=begin + timedelta(days=day), unstable_reason="steal" if job == 2 else None,
        )
        for day in range(RECENT_INSPECTIONS + 5)
        for job in range(3)
    ]  # fmt: skip
    rows += [observed("x", 7e9, document_id="sha256:x", unstable_reason="steal")]
    random.Random(1).shuffle(rows)
    (group,) = compare_stacks(rows)
    assert group.recent.observations == len(rows)
    assert group.recent.inspections == RECENT_INSPECTIONS + 6
    assert group.recent.rates == tuple(
        1e9 * (day + 1.5) for day in range(5, RECENT_INSPECTIONS + 5)
    )


def test_every_key_of_the_comparison_document_is_described(pytestconfig: pytest.Config) -> None:
    page = (pytestconfig.rootpath / "docs/reference/stacks.md").read_text("utf-8")
    document = stacks_document(compare_stacks(jobs(1e9) + jobs(2e9, **OLDER)))
    described = {key for key in _keys(document) if key != "dtype"}
    assert not {key for key in described if f"`{key}`" not in page}


def _keys(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*(_keys(item) for item in value.values()))
    return set().union(*(_keys(item) for item in value)) if isinstance(value, list) else set()


def in_turns(rates: list[float], host: str = "h1", **changes: Any) -> list[MeasuredObservation]:
    """A job a rate, each in a block of its own."""
    name = f"{changes.get('stack_digest', NEW)}-{host}"
    return [
        observed(f"{name}-{n}", rate, host=host, block=f"run:{n}", **changes)
        for n, rate in enumerate(rates)
    ]


#: A machine that loses a third of its speed over six blocks.
FADING = [6e9, 5.7e9, 5.3e9, 4.9e9, 4.4e9, 4e9]
#: A candidate that is 5 % faster whatever the machine does.
KEEPING_UP = [1.05 * rate * (1 + noise) for rate, noise in zip(
    FADING, (0.001, -0.002, 0.0, 0.002, -0.001, 0.0), strict=True)]  # fmt: skip


def test_only_flops_rates_are_shown_in_flop_per_second() -> None:
    images = jobs(1234.5, unit=Unit.IMAGES_PER_SECOND, indicator="PiTrain")
    for rows, unit, rate in ((images, "images/s", None), (jobs(1e9), "FLOP/s", 1e9)):
        group = stacks_document(compare_stacks(rows))["groups"][0]
        found = group["stacks"][0]["median_flop_per_s"]
        assert (group["unit"], found and round(found)) == (unit, rate)


DAY = datetime(2026, 1, 1, tzinfo=UTC)


def run(
    day: int, level: float, count: int = 6, host: str = "h1", **changes: Any
) -> list[MeasuredObservation]:
    """One inspection: jobs an hour apart, within 0.2 %."""
    told = {"document_id": f"sha256:{changes.get('stack_digest', NEW)}{day}", **changes}
    return [
        observed(
            f"{told['document_id']}-{n}", level * (1 + 0.001 * (-1) ** n), host=host,
            seen_at=DAY + timedelta(days=day, hours=n), **told,
        )
        for n in range(count)
    ]  # fmt: skip


def test_stack_comparison_and_advice_use_the_same_margin() -> None:
    """One stack ran twice in the same turns, 9 % apart."""
    wild = [
        but(row, block=f"aa:{n}")
        for night, at in enumerate((1.0, 1.09))
        for n, row in enumerate(run(night, at * 1e9, **OLDER))
    ]
    calm = jobs(1e9, host="h1")
    other = jobs(1.05e9, host="h1", stack_digest=PRE, component_version="2.8.0")
    rows = [*wild, *calm, *other]
    group = only(compare_stacks(rows, "newest"))
    series, readings = rows[0].series, tuple(row.reading for row in rows)
    (history,) = histories_of(Evidence(DAY, (series,), readings), [0]).values()
    assert group.delta == smallest_difference(history.identical) > 0.05
    assert verdicts(group)["tensorflow 2.8.0 (bb030000)"] == "equivalent"
    assert verdicts(only(compare_stacks([*calm, *other]))) == {
        "tensorflow 2.8.0 (bb030000)": "faster"
    }
    assert f"by up to {group.delta:.1%}" in " ".join(shown(group, 400).split())
    assert stacks_document([group])["groups"][0]["delta_pct"] == 100 * group.delta


def test_advice_and_stacks_command_agree_on_p_value_and_interval() -> None:
    """The same jobs of two stacks, none of them in turns."""
    draw = random.Random(8)
    levels: list[tuple[dict[str, Any], float]] = [({}, 1e9), (OLDER, 1.06e9)]
    rows = [
        row
        for stack, level in levels
        for day in range(8)
        for row in run(day, level * math.exp(draw.gauss(0, 0.01)), 3, **stack)
    ]
    group = only(compare_stacks(rows))
    claim = advised(rows)
    (comparison,) = (it.comparison for it in group.stacks if it.comparison)
    assert claim.verdict is comparison.verdict
    assert (claim.runs, claim.jobs) == (comparison.runs, comparison.jobs) == (8, 24)
    assert claim.p_value == comparison.p_value
    assert claim.interval_low_pct == comparison.interval_low_pct


def test_stacks_with_different_pythons_are_not_compared() -> None:
    groups = compare_stacks(
        jobs(1e9, python_version="3.10") + jobs(2e9, python_version="3.11", **OLDER)
    )
    assert [group.python_version for group in groups] == ["3.10", "3.11"]
    assert not any(verdicts(group) for group in groups)


def test_undetermined_comparisons_are_ordered_by_chance_per_job() -> None:
    noisy = [observed(f"o{n}", 1.03e9 * (1 + 0.03 * (-1) ** n), **OLDER) for n in range(6)]
    few = jobs(1.02e9, 1, stack_digest=PRE, component_version="2.8.0")
    slow = [observed(f"s{n}", 0.5e9 * (1 + 0.3 * (-1) ** n), stack_digest="sha256:ee" + "0" * 62,
                     component_version="2.7.0")
            for n in range(6)]  # fmt: skip
    group = only(compare_stacks(jobs(1e9, 6) + noisy + few + slow))
    assert group.baseline is not None
    first, second = (it for it in group.next_jobs)
    assert (first.label, second.label) == (
        "tensorflow 2.9.3 (aa010000)", "tensorflow 2.8.0 (bb030000)",
    )  # fmt: skip
    assert 0 < first.chance < 1
    assert (second.chance, second.jobs, second.baseline_jobs) == (0.0, 4, 0)
    text = " ".join(shown(group, 400, verbose=True).split())
    assert f"Measure next: {first.label}, {first.jobs} more jobs" in text
    assert "; 1 more." not in text
    assert "; 1 more." in " ".join(shown(group, 400).split())
    more = replace(group, next_jobs=group.next_jobs * 3)
    assert "; 3 more." in " ".join(shown(more, 600, verbose=True).split())


def test_self_check_compares_repeated_runs_of_a_stack() -> None:
    steady = [row for day in range(12) for row in run(day, 1e9 * (1 + 0.01 * (day % 3)))]
    found = identical_pairs(steady)
    assert (found.comparisons, found.faster, found.slower) == (6, 0, 0)
    assert identical_pairs(run(0, 1e9)).comparisons == 0
    few = identical_pairs([*run(0, 1e9), *run(1, 1.2e9)])
    assert (few.comparisons, few.settled) == (1, 0), "nothing tells what a run does"


def test_self_check_reports_repeated_runs_of_a_stack_that_differ() -> None:
    """Each second copy of a stack is 20 % faster in the very same turns."""
    lying = [
        but(row, block=f"{stack}:{n}")
        for stack in range(12)
        for night, at in enumerate((1e9, 1.2e9))
        for n, row in enumerate(run(night, at, stack_digest=f"sha256:{stack:064x}"))
    ]
    problems = identical_pairs(lying).problems
    assert problems[0].startswith("12 false claims in ")


def stacked(*rows: MeasuredObservation, **versions: str) -> list[MeasuredObservation]:
    """The rows with these packages, and their index if a version is ``VERSION@INDEX``."""
    packages = tuple(
        package_version(name, version.partition("@")[0], version.partition("@")[2] or None)
        for name, version in versions.items()
    )
    return [replace(it, packages=packages) for it in rows]


def test_every_view_of_a_comparison_names_all_differing_packages() -> None:
    base = stacked(*jobs(1e9, 6), tensorflow="2.10.0", numpy="2.3.5", ctx="1.0", gone="1")
    rows = stacked(
        *jobs(2e9, **OLDER), tensorflow="2.9.3", numpy="2.2.6@builds", ctx="2.0", new="3", same="1"
    )
    alone = jobs(2e9, stack_digest=PRE, component_version="2.8.0")
    alone = stacked(*alone, tensorflow="2.8.0", numpy="2.3.5", ctx="1.0", gone="1")
    group = only(compare_stacks(base + rows + alone))
    stacks = {it.stack_digest: it for it in group.stacks}
    assert [str(it) for it in stacks[OLD].differing_packages] == [
        "tensorflow 2.10.0 → 2.9.3", "ctx 1.0 → 2.0", "gone 1 → none", "new none → 3",
        "numpy 2.3.5 → 2.2.6 (builds)", "same none → 1",
    ]  # fmt: skip
    head, line = (it.text for it in group_notes(group))
    assert head == "Packages that differ from the baseline:"
    first = "tensorflow 2.10.0 → 2.9.3, ctx 1.0 → 2.0, gone 1 → none"
    assert line == f"  tensorflow 2.9.3 (aa010000): {first} and 3 more"
    assert list(group_notes(group, verbose=True))[1].text.endswith("same none → 1")
    document = stacks_document([group])["groups"][0]
    by_digest = {it["stack_digest"]: it["differing_packages"] for it in document["stacks"]}
    assert by_digest[NEW] == []
    assert by_digest[PRE] == [
        {"name": "tensorflow", "baseline_version": "2.10.0", "version": "2.8.0"}
    ]
    assert len(by_digest[OLD]) == 6


@pytest.mark.parametrize("lost", [0, 1, 3])
def test_shown_rates_and_shown_difference_agree(lost: int) -> None:
    """The first jobs of the older stack are lost, when the machine was fastest."""
    rows = in_turns(FADING * 2) + in_turns(KEEPING_UP * 2, **OLDER)[lost:]
    older, newer = only(compare_stacks(rows, "newest")).stacks
    assert newer.comparison is None
    assert older.median_rate is not None
    assert newer.median_rate == pytest.approx(4.8e9, rel=0.1)
    assert older.median_rate / newer.median_rate == pytest.approx(
        1 + older.comparison.difference_pct / 100
    )


def groups_to_show() -> Iterator[tuple[str, list[MeasuredObservation], str | None]]:
    """Titles, observations and the baseline that is requested."""
    unversioned: dict[str, Any] = {"component": None, "component_version": None}
    spread: dict[str, Any] = {"host": "h1", "unstable_reason": "spread"}
    runs: dict[str, Any] = {"unit": Unit.RUNS_PER_SECOND}
    images: dict[str, Any] = {"unit": Unit.IMAGES_PER_SECOND, "indicator": "PiTrain"}
    older = jobs(2e9, **OLDER)
    yield "jobs are missing", jobs(1e9, 3) + older[:4], "newest"
    yield "pairs", in_turns(FADING) + in_turns(KEEPING_UP, **OLDER), "newest"
    yield "no common host", in_turns(FADING) + in_turns(FADING, "h2", **OLDER), "newest"
    yield "one run of each", [*run(0, 1e9, 10), *run(1, 1.3e9, 10, **OLDER)], "newest"
    yield "small rates", jobs(0.0125, **runs) + jobs(4.0, **runs, **OLDER), "newest"
    yield "images", jobs(1234.5, **images), None
    most = jobs(1e9) + jobs(2e9, 15, **OLDER)
    yield "most jobs", most, None
    yield "the newest of all", most, "newest"
    yield "a baseline that is requested", jobs(1e9) + older, "aa01"
    yield "the newest of those with most jobs", jobs(1e9) + older, None
    for count in (2, 3):
        rows = jobs(1e9, 10)
        rows[:count] = [but(it, unstable_reason="steal") for it in rows[:count]]
        yield f"{count} disturbed jobs", rows + jobs(1e9, 10, **OLDER), None
    for digests in ((OLD, PRE), (PRE, OLD)):
        rows = [
            row
            for digest, numpy in zip(digests, ("1.9.0", "1.26.4"), strict=True)
            for row in jobs(
                1e9, stack_digest=digest, packages=[("tensorflow", "2.10.0"), ("numpy", numpy)]
            )
        ]
        yield f"newer packages in {digests[1][7:9]}", rows, None
    for version in ("2.11.0rc1", "not-a-version", None):
        other = jobs(1e9, stack_digest=PRE, component_version=version)
        yield f"a release beside {version}", other + jobs(1e9, **OLDER), None
    few = jobs(1e9, 3, stack_digest=PRE, **unversioned)
    yield "no versions", few + jobs(1e9, 6, stack_digest=OLD, **unversioned), "newest"
    yield "jobs that measured twice", jobs(1e9) + [it for it in older[:4] for _ in range(5)], None
    flagged = zip(jobs(9e9, 2), ("throttled", "spread"), strict=True)
    rows = jobs(1e9) + [but(it, unstable_reason=reason) for it, reason in flagged]
    yield "unstable jobs", rows, None
    yield "unstable jobs only", jobs(1e9) + jobs(2e9, unstable_reason="swapped", **OLDER), None
    yield "every job is left out", jobs(1e9, **spread) + jobs(2e9, **spread, **OLDER), "newest"
    wide = [observed(f"w{n}", rate * 1e9) for n, rate in enumerate((0.2, 0.5, 1.0, 1.7, 1.8))]
    yield "jobs that spread widely", wide, None
    unknown = jobs(5e9, stack_digest=None) + jobs(6e9, stack_digest=None, component_version=None)
    yield "unknown stacks", jobs(1e9) + unknown, None
    yield "unknown stacks only", unknown, None
    for ours, theirs in (("0123", "012345"), ("012", "345"), ("", "012345")):
        rows = disturbed(in_turns(FADING), ours) + disturbed(in_turns(FADING, **OLDER), theirs)
        yield f"stable turns {ours or '–'} beside {theirs}", rows, None


def disturbed(several: list[MeasuredObservation], stable: str) -> list[MeasuredObservation]:
    """One inspection in which all jobs but these are unstable."""
    return [
        but(row, document_id=f"sha256:{row.reading.stack}",
            unstable_reason=None if str(n) in stable else "steal")
        for n, row in enumerate(several)
    ]  # fmt: skip


def test_comparison_table_shows_rates_verdicts_and_notes() -> None:
    views = {}
    for title, rows, baseline in groups_to_show():
        group = only(compare_stacks(rows, baseline))
        assert max(map(len, shown(group, 80).splitlines())) <= 80
        notes = (it.text for it in group_notes(group, verbose=True))
        views[title] = "\n".join([shown(group, verbose=True).rstrip(), *notes])
    rows = in_turns(FADING) + in_turns(KEEPING_UP, **OLDER)
    views["pairs on a narrow terminal"] = shown(only(compare_stacks(rows)), 80)
    compare_views("stacks", views)
