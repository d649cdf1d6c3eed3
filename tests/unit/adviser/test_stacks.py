"""Observations into groups, baselines and verdicts."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from rich.console import Console

from adviser.stacks import StackGroup, UnknownBaseline, compare_stacks
from adviser.tables import group_table, stacks_document
from common.measurements import Unit

OLD, NEW, PRE = "sha256:aa01" + "0" * 60, "sha256:aa02" + "0" * 60, "sha256:bb03" + "0" * 60


@dataclass(frozen=True, slots=True)
class Observed:
    """What the store would give, with sensible defaults."""

    job_id: str
    rate: float
    stack_digest: str | None = NEW
    component: str | None = "tensorflow"
    component_version: str | None = "2.10.0"
    script_sha256: str | None = "3e2b7fa1" + 56 * "0"
    indicator: str = "PiMatmul"
    parameters: dict[str, Any] = field(default_factory=lambda: {"dtype": "float32"})
    device: str | None = "cpu"
    hardware_digest: str = "sha256:cc" + "0" * 62
    hardware_label: str = "Xeon [4 cores]"
    comparison_key: str = "sha256:dd"
    elapsed_s: float | None = None
    repetitions_s: tuple[float, ...] = ()
    unstable_reason: str | None = None
    unit: Unit = Unit.FLOP_PER_SECOND
    host: str | None = None
    block: str | None = None


def jobs(rate: float, count: int = 5, **changes: Any) -> list[Observed]:
    """``count`` jobs around ``rate`` FLOP/s, within 1 %."""
    name = f"{changes.get('stack_digest', NEW)}-{rate}"
    steps = [1 + 0.01 * (2 * i / max(1, count - 1) - 1) for i in range(count)]
    return [replace(Observed(f"{name}-{i}", rate * x), **changes) for i, x in enumerate(steps)]


OLDER: dict[str, Any] = {"stack_digest": OLD, "component_version": "2.9.3"}


def only(groups: list[StackGroup]) -> StackGroup:
    (group,) = groups
    return group


def verdicts(group: StackGroup) -> dict[str, str]:
    return {s.label: str(s.comparison.verdict) for s in group.stacks if s.comparison}


def test_the_newest_release_is_the_baseline_by_version_not_by_text() -> None:
    group = only(compare_stacks(jobs(1e9) + jobs(2e9, **OLDER)))
    assert group.baseline is not None
    assert group.baseline.label == "tensorflow 2.10.0 (aa020000)"
    assert group.baseline_reason == "newest release of tensorflow measured here"
    assert verdicts(group) == {"tensorflow 2.9.3 (aa010000)": "faster"}
    assert [stack.stack_digest for stack in group.stacks] == [OLD, NEW]


@pytest.mark.parametrize("version", ["2.11.0rc1", "not-a-version", None])
def test_a_release_goes_before_what_is_none(version: str | None) -> None:
    other = jobs(1e9, stack_digest=PRE, component_version=version)
    group = only(compare_stacks(other + jobs(1e9, **OLDER)))
    assert group.baseline is not None
    assert group.baseline.stack_digest == OLD


def test_without_versions_the_stack_with_most_jobs_is_the_baseline() -> None:
    unversioned: dict[str, Any] = {"component": None, "component_version": None}
    few = jobs(1e9, 3, stack_digest=PRE, **unversioned)
    group = only(compare_stacks(few + jobs(1e9, 6, stack_digest=OLD, **unversioned)))
    assert group.baseline is not None
    assert group.baseline.label == "stack (aa010000)"
    assert "no version" in group.baseline_reason


@pytest.mark.parametrize("prefix", ["aa01", "sha256:aa01"])
def test_another_baseline_can_be_asked_for(prefix: str) -> None:
    elsewhere = jobs(1e9, comparison_key="sha256:ee", indicator="PiConv2D")
    conv, matmul = compare_stacks(jobs(1e9) + jobs(2e9, **OLDER) + elsewhere, prefix)
    assert matmul.baseline is not None
    assert (matmul.baseline.stack_digest, matmul.baseline_reason) == (OLD, "as asked")
    assert verdicts(matmul) == {"tensorflow 2.10.0 (aa020000)": "slower"}
    assert conv.baseline_reason.endswith(f"{prefix} was not measured here")


@pytest.mark.parametrize(("prefix", "words"), [("ff", "starts with"), ("aa", "more than one")])
def test_a_baseline_that_is_not_one_stack_is_refused(prefix: str, words: str) -> None:
    with pytest.raises(UnknownBaseline, match=words):
        compare_stacks(jobs(1e9) + jobs(2e9, **OLDER), prefix)


def test_observations_with_different_keys_never_meet() -> None:
    groups = compare_stacks(jobs(1e9) + jobs(2e9, comparison_key="sha256:ee", **OLDER))
    assert len(groups) == 2
    assert not any(verdicts(group) for group in groups)


def test_what_a_job_measured_twice_is_one_job() -> None:
    twice = [row for row in jobs(2e9, 4, **OLDER) for _ in range(5)]
    group = only(compare_stacks(jobs(1e9) + twice))
    assert group.stacks[0].jobs == 4
    assert verdicts(group) == {"tensorflow 2.9.3 (aa010000)": "undetermined"}


def test_unstable_jobs_are_shown_and_left_out() -> None:
    good, bad = jobs(1e9), jobs(9e9, 2)
    flagged = [
        replace(bad[0], unstable_reason="throttled"),
        replace(bad[1], repetitions_s=(1.0, 2.0, 3.0)),
    ]
    stack = only(compare_stacks(good + flagged)).stacks[0]
    assert (stack.jobs, stack.unstable) == (7, ("spread", "throttled"))
    assert stack.median_rate == pytest.approx(1e9)
    assert stack.variation == pytest.approx(1.4826 * 0.005)


def test_a_stack_of_unstable_jobs_has_no_median() -> None:
    group = only(compare_stacks(jobs(1e9) + jobs(2e9, unstable_reason="swapped", **OLDER)))
    stack = group.stacks[-1]
    assert (stack.median_rate, stack.variation) == (None, None)
    assert verdicts(group) == {stack.label: "undetermined"}
    assert "–" in shown(group)


def test_unknown_stacks_are_shown_apart_and_compared_with_nothing() -> None:
    unknown = jobs(5e9, stack_digest=None) + jobs(6e9, stack_digest=None, component_version=None)
    group = only(compare_stacks(jobs(1e9) + unknown))
    assert [s.label for s in group.stacks] == ["tensorflow 2.10.0 (aa020000)"]
    assert [s.label for s in group.unknown] == [
        "tensorflow (stack unknown)",
        "tensorflow 2.10.0 (stack unknown)",
    ]
    assert all(stack.comparison is None for stack in group.unknown)
    assert only(compare_stacks(unknown)).baseline is None


def test_the_order_of_observations_never_matters() -> None:
    rows = jobs(1e9) + jobs(2e9, **OLDER) + jobs(5e9, stack_digest=None)
    assert compare_stacks(rows[::-1]) == compare_stacks(rows)


def shown(group: StackGroup, width: int = 160) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(group_table(group))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_table_says_how_many_jobs_are_missing() -> None:
    text = shown(only(compare_stacks(jobs(1e9, 3) + jobs(2e9, 4, **OLDER))))
    assert "PiMatmul (script 3e2b7fa1), dtype float32, cpu, on Xeon [4 cores] (cc000000)" in text
    assert "+1 job" in text
    assert "base +2" in text
    assert "newest release of tensorflow" in text
    assert "+100.0%" in text


@pytest.mark.parametrize("width", [80, 160])
def test_the_table_keeps_its_numbers_on_a_narrow_terminal(width: int) -> None:
    text = shown(only(compare_stacks(jobs(1e9) + jobs(2e9, 4, **OLDER))), width)
    assert "+97.3…+102.7" in text
    assert max(map(len, text.splitlines())) <= width


def test_the_document_is_json_and_names_what_is_unknown() -> None:
    rows = jobs(1e9) + jobs(2e9, 1, **OLDER) + jobs(5e9, stack_digest=None)
    document = stacks_document(compare_stacks(rows), hidden_groups=2)
    json.dumps(document, allow_nan=False)
    assert (document["version"], document["hidden_groups"]) == (1, 2)
    (group,) = document["groups"]
    assert group["baseline"]["stack_digest"] == NEW
    (single,) = [s for s in group["stacks"] if s["stack_digest"] == OLD]
    assert single["comparison"]["verdict"] == "undetermined"
    assert single["comparison"]["jobs_missing"] == 4
    assert single["comparison"]["interval_low_pct"] is None
    assert single["comparison"]["difference_pct"] == pytest.approx(98.0, abs=0.1)
    assert len(group["unknown_stacks"]) == 1


def test_every_key_of_the_document_is_described(pytestconfig: pytest.Config) -> None:
    page = (pytestconfig.rootpath / "docs/reference/stacks.md").read_text("utf-8")
    document = stacks_document(compare_stacks(jobs(1e9) + jobs(2e9, **OLDER)))
    described = {key for key in _keys(document) if key != "dtype"}
    assert not {key for key in described if f"`{key}`" not in page}


def _keys(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*(_keys(item) for item in value.values()))
    return set().union(*(_keys(item) for item in value)) if isinstance(value, list) else set()


def test_a_job_counts_by_the_median_of_its_repetitions_not_by_their_mean() -> None:
    told = jobs(1e9, 1)[0]
    seen = replace(told, elapsed_s=2.0, repetitions_s=(1.0, 1.01, 0.99, 1.0, 6.0))
    (group,) = compare_stacks([seen])
    assert group.stacks[0].median_rate == pytest.approx(2 * told.rate)


def in_turns(rates: list[float], host: str = "h1", **changes: Any) -> list[Observed]:
    """A job a rate, each in a block of its own."""
    name = f"{changes.get('stack_digest', NEW)}-{host}"
    return [
        replace(Observed(f"{name}-{n}", rate, host=host, block=f"run:{n}"), **changes)
        for n, rate in enumerate(rates)
    ]


#: A machine that loses a third of its speed over six blocks.
FADING = [6e9, 5.7e9, 5.3e9, 4.9e9, 4.4e9, 4e9]
#: A candidate that is 5 % faster whatever the machine does.
KEEPING_UP = [1.05 * rate * (1 + noise) for rate, noise in zip(
    FADING, (0.001, -0.002, 0.0, 0.002, -0.001, 0.0), strict=True)]  # fmt: skip


def test_jobs_that_ran_in_turns_are_compared_in_pairs() -> None:
    group = only(compare_stacks(in_turns(FADING) + in_turns(KEEPING_UP, **OLDER)))
    assert verdicts(group) == {"tensorflow 2.9.3 (aa010000)": "faster"}
    document = stacks_document([group])["groups"][0]["stacks"][0]["comparison"]
    assert {key: document[key] for key in ("method", "pairs", "hosts", "tau")} == {
        "method": "paired", "pairs": 6, "hosts": 1, "tau": None,
    }  # fmt: skip
    apart = [replace(row, block=None) for row in in_turns(FADING) + in_turns(KEEPING_UP, **OLDER)]
    assert verdicts(only(compare_stacks(apart))) == {"tensorflow 2.9.3 (aa010000)": "undetermined"}


def test_the_table_says_how_many_pairs() -> None:
    text = shown(only(compare_stacks(in_turns(FADING) + in_turns(KEEPING_UP, **OLDER))))
    assert "faster ⇄6" in text
    assert "⇄n: by n pairs of jobs that ran in turns." in " ".join(text.split())
    assert "⇄" not in shown(only(compare_stacks(jobs(1e9) + jobs(2e9, **OLDER))))


def test_an_unstable_job_leaves_its_partner_alone() -> None:
    rows = in_turns(FADING) + in_turns(KEEPING_UP, **OLDER)
    rows[2] = replace(rows[2], unstable_reason="steal")
    group = only(compare_stacks(rows))
    comparison = group.stacks[0].comparison
    assert comparison is not None
    assert (comparison.method, comparison.pairs) == ("paired", 5)


def test_hosts_that_both_saw_are_pooled() -> None:
    rows = [
        row
        for host, speed in (("h1", 1.0), ("h2", 1.3))
        for row in (
            *in_turns([rate * speed for rate in FADING], host),
            *in_turns([rate * speed for rate in KEEPING_UP], host, **OLDER),
        )
    ]
    group = only(compare_stacks(rows))
    document = stacks_document([group])["groups"][0]["stacks"][0]["comparison"]
    assert (document["method"], document["hosts"], document["pairs"]) == ("pooled", 2, 12)
    assert document["tau"] == 0.0
    assert document["degrees_of_freedom"] == 1.0
    assert "∑2" in shown(group)
    assert "∑n: pooled over n hosts." in " ".join(shown(group).split())


def test_stacks_without_a_common_host_say_so() -> None:
    group = only(compare_stacks(in_turns(FADING) + in_turns(FADING, "h2", **OLDER)))
    assert "no common host" in " ".join(shown(group).split())
    document = stacks_document([group])
    json.dumps(document, allow_nan=False)


def test_each_group_is_shown_in_its_own_unit() -> None:
    images: dict[str, Any] = {"unit": Unit.IMAGES_PER_SECOND, "indicator": "PiTrain"}
    group = only(compare_stacks(jobs(1234.5, **images)))
    assert "images/s" in shown(group)
    assert "1,234.50" in shown(group)
    document = stacks_document([group])["groups"][0]
    assert document["unit"] == "images/s"
    stack = document["stacks"][0]
    assert (stack["median_rate"], stack["median_flop_per_s"]) == (pytest.approx(1234.5), None)
    flop = stacks_document(compare_stacks(jobs(1e9)))["groups"][0]
    assert (flop["unit"], flop["stacks"][0]["median_flop_per_s"]) == ("FLOP/s", pytest.approx(1e9))
    assert "GFLOPS" in shown(only(compare_stacks(jobs(1e9))))


def test_the_widest_table_keeps_its_verdicts_on_a_narrow_terminal() -> None:
    wild = [6e9, 5e9, 9e9, 4e9, 4.4e9, 6e9, 7e9]
    rows = in_turns(wild) + in_turns(wild[::-1], **OLDER)
    rows[0] = replace(rows[0], unstable_reason="steal")
    text = shown(only(compare_stacks(rows)), 80)
    assert max(map(len, text.splitlines())) <= 80
    for whole in ("baseline", "undetermined", "⇄6", "out"):
        assert whole in text
