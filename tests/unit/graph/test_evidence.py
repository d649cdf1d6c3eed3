"""Frozen evidence: its canonical form, its revision, and what is no evidence."""

import json
import re
import weakref
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph.record.evidence import series_and_readings
from model.declared_fields import DIGEST
from model.errors import InvalidDocument, Reason
from model.measurements.evidence import Evidence, EvidencePack, Reading
from tests.factories.errors import raised
from tests.factories.evidence import NOW, Bench, harms, purl, series

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "evidence.md"


def full() -> Evidence:
    bench = Bench()
    bench.measure(bench.stack("a==1", "b==2"), [0.0, 0.1], begin=NOW, blocks=["r:0", "r:1"])
    bench.measure(bench.stack("a==1.0+cpu"), [0.5], unstable="steal", host=None)
    return bench.evidence(vulnerabilities=harms(CVE_1=("CVE-1",)), sources={"x": None, "y": NOW})


def test_evidence_is_read_back_from_json() -> None:
    evidence = full()
    assert Evidence.from_json(evidence.to_json()) == evidence
    assert Evidence.from_json(evidence.to_json()).to_json() == evidence.to_json()


def test_unknown_clock_tick_does_not_change_the_evidence_digest() -> None:
    evidence = full()
    names = [it.name for it in fields(Reading)]
    rows = json.loads(evidence.to_json())["readings"]
    assert names[-2:] == ["tick_share", "session"]
    assert {len(row) for row in rows} == {len(names) - 2}
    first = replace(evidence.readings[0], tick_share=1e-6)
    ticking = replace(evidence, readings=(first, *evidence.readings[1:]))
    assert len(json.loads(ticking.to_json())["readings"][0]) == len(names) - 1
    assert Evidence.from_json(ticking.to_json()) == ticking


def test_pack_measurements_are_separate_from_own_measurements() -> None:
    own, bench = full(), Bench()
    assert not {b"origin", b"packs"} & set(own.to_json().split(b'"'))
    theirs = [series(origin=DIGEST), series("other", origin=DIGEST)]
    for how in theirs:
        bench.measure(bench.stack("a==1", "c==3"), [0.0, 0.1], how)
    ours = own.readings[0].stack
    bench.measure(ours, [0.2], theirs[0], host="h9")
    bench.stacks[ours] = (purl("evil==1"),)
    pack = EvidencePack(DIGEST, "lab", indicators=("PiMatmul",), sessions=2)
    other = bench.evidence(packs=(pack,), hardware={})
    known = replace(other.readings[0], observation_id=own.readings[0].observation_id, session="s")
    other = replace(other, readings=(known, *other.readings[1:]))
    merged = own.with_packs([other])
    assert Evidence.from_json(merged.to_json()) == merged
    assert merged.only(range(len(own.series))) == own
    assert merged.hardware == own.hardware
    new = merged.readings[len(own.readings) :]
    # Observations that the own record has are left out, and a stack is what we know it to be.
    assert [it.observation_id for it in new] == [it.observation_id for it in other.readings[1:]]
    assert merged.stacks.items() >= own.stacks.items()
    assert merged.stacks[new[-1].stack] == (purl("evil==1"),)
    part = merged.only([len(own.series) + 1])
    assert (part.series, {it.series for it in part.readings}) == ((theirs[1],), {0})
    assert (part.packs, list(part.stacks)) == ((pack,), [new[0].stack])


def test_evidence_revision_changes_exactly_with_its_content() -> None:
    evidence = full()
    mixed = replace(evidence, stacks=dict(reversed(list(evidence.stacks.items()))))
    assert mixed.revision == evidence.revision
    for change in (
        {"as_of": NOW + timedelta(days=1)},
        {"readings": evidence.readings[:-1]},
        {"sources": {"x": NOW, "y": NOW}},
    ):
        assert replace(evidence, **change).revision != evidence.revision


def test_evidence_is_serialised_only_once() -> None:
    evidence = full()
    assert evidence.to_json() is evidence.to_json()
    assert evidence.revision is evidence.revision
    assert evidence == full(), "what is kept is no part of what it is"
    assert replace(evidence, readings=()).to_json() != evidence.to_json()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"{", Reason.INVALID_JSON),
        (b"[]", Reason.MISSING_FIELD),
        (b"{}", Reason.MISSING_FIELD),
        (b'{"schema_version": "evidence-9"}', Reason.UNKNOWN_SCHEMA),
        (b'{"schema_version": "evidence-1"}', Reason.MISSING_FIELD),
    ],
)
def test_invalid_evidence_document_is_refused(data: bytes, reason: Reason) -> None:
    with raised(InvalidDocument, reason=reason):
        Evidence.from_json(data)


anything = st.none() | st.integers() | st.text() | st.lists(st.integers()) | st.just({"a": 1})


@given(st.sampled_from([it.name for it in fields(Evidence)]), anything)
def test_evidence_with_any_wrong_field_is_read_or_refused(name: str, value: object) -> None:
    raw = json.loads(full().to_json())
    data = json.dumps({**raw, name: value}).encode()
    with suppress(InvalidDocument):
        assert Evidence.from_json(data).to_json()


def test_reference_page_lists_every_evidence_field() -> None:
    page = PAGE.read_text(encoding="utf-8")
    told = set(re.findall(r"(?m)^- `(\w+)`", page))
    assert told == {"schema_version", *(it.name for it in fields(Evidence))}
    readings = page.partition("- `readings`:")[2].partition("\n- ")[0]
    assert re.findall(r"`(\w+)`", readings) == [it.name for it in fields(Reading)]


class _Row(SimpleNamespace):
    """Unlike its base class, it takes weak references."""


def test_measurement_rows_are_released_while_more_are_read() -> None:
    kept: list[weakref.ref[_Row]] = []

    def rows() -> Iterator[Any]:
        for number in reversed(range(3)):
            assert all(it() is None for it in kept[:-1])
            row = _Row(
                observation_id=f"o{number}", document_id="d", job_id=f"j{number}",
                comparison_key="key", parameters={}, device=None, unit="FLOP/s", rate=2.0,
                elapsed_s=1.0, repetitions_s=[1.0, 2.0, 4.0], unstable_reason=None, host=None,
                block=None, seen_at=NOW, hardware_digest="h", stack_digest="s",
                indicator="PiMatmul", script_sha256=None, python_version="3.12.1", tick_share=1e-6,
            )  # fmt: skip
            kept.append(weakref.ref(row))
            yield row

    series, readings = series_and_readings(rows())
    assert [it.python_version for it in series] == ["3.12"]
    assert [it.observation_id for it in readings] == ["o0", "o1", "o2"]
    first = Reading("o0", 0, "s", "d", "j0", 1.0, "spread", None, None, NOW, 1e-6)
    assert readings[0] == first
