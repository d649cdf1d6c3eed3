"""VEX documents: what closes a vulnerability and for how long, and what is refused."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from adviser.vex import VexStatement, VexStatements, VexStatus, read_vex, with_acceptance
from model.errors import InvalidArgument, InvalidFile, Reason
from model.measurements.evidence import VulnerabilityDetails
from tests.factories.errors import raised
from tests.factories.golden import DATA

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
DETAILS = {
    "CVE-2026-1": VulnerabilityDetails(("CVE-2026-1", "GHSA-aaaa-bbbb-cccc", "PYSEC-2026-1")),
    "CVE-2026-2": VulnerabilityDetails(("CVE-2026-2",)),
}
OPENVEX: dict[str, Any] = json.loads((DATA / "vex/openvex.json").read_text("utf-8"))
CYCLONEDX: dict[str, Any] = json.loads((DATA / "vex/cyclonedx.json").read_text("utf-8"))
ACCEPTED = VexStatement(
    frozenset({"CVE-2026-1"}), VexStatus.AFFECTED, "no templates of others", "thoth.vex.json",
    "2026-06-30", made_at=datetime(2026, 5, 1, tzinfo=UTC),
)  # fmt: skip


def read(document: Any, source: str = "a.json") -> list[VexStatement]:
    return read_vex(source, json.dumps(document).encode(), NOW)


def on(
    statements: list[VexStatement], release: str, name: str = "CVE-2026-1",
    day: date = date(2026, 6, 1),
) -> str | None:  # fmt: skip
    """What closes a vulnerability of a release."""
    package, _, version = release.partition("==")
    known = VexStatements(statements, DETAILS, day).closing(package, version, name)
    return known and known.text(closed=True)


def test_vex_statement_applies_to_its_versions_under_every_alias() -> None:
    theirs = read(OPENVEX, "vendor.json")
    why = "vulnerable_code_not_in_execute_path; only our own templates"
    assert on(theirs, "jinja2==3.1.2") == f"not affected: {why} (vendor.json)"
    assert on(theirs, "jinja2==3.1.3") is None
    assert on(theirs, "flask==2.0", "CVE-2026-2") == "fixed (vendor.json)"
    for other in ("pip==24.0", "rich==13", "vite==1"):
        assert on(theirs, other, "CVE-2026-2") is None
    ours = read(CYCLONEDX)
    assert on(ours, "jinja2==3.1.2.0") == on(ours, "flask==2.0")
    assert on(ours, "flask==2.1") is on(ours, "flask==0.5") is on(ours, "x==1") is None
    in_triage = VexStatements(ours, DETAILS, NOW.date()).on("any", "1", "CVE-2026-2")
    assert in_triage is not None
    assert in_triage.status is VexStatus.UNDER_INVESTIGATION
    assert on(ours, "any==1", "CVE-2026-2") is None


def test_accepted_vulnerability_stays_accepted_until_the_end_of_the_last_day() -> None:
    said = "accepted until 2026-06-30: no templates of others (thoth.vex.json)"
    assert on([ACCEPTED], "any==1", day=date(2026, 6, 30)) == said
    assert on([ACCEPTED], "any==1", day=date(2026, 7, 1)) is None
    expired = VexStatements([ACCEPTED], DETAILS, date(2026, 7, 1)).on("any", "1", "CVE-2026-1")
    assert expired is not None
    assert expired.text(closed=False) == f"was {said}"


def test_newest_vex_statement_counts_and_an_acceptance_overrides_it() -> None:
    def said(status: VexStatus, month: int | None) -> VexStatement:
        made_at = month and datetime(2026, month, 1, tzinfo=UTC)
        return VexStatement(ACCEPTED.names, status, "", "a", made_at=made_at or None)

    affected, free = said(VexStatus.AFFECTED, 5), said(VexStatus.NOT_AFFECTED, 4)
    assert on([affected, free], "any==1") is None
    assert on([affected, replace(free, made_at=NOW)], "any==1") == "not affected (a)"
    undated = [said(VexStatus.AFFECTED, None), said(VexStatus.FIXED, None)]
    assert on(undated, "any==1") == "fixed (a)"
    assert on(undated[::-1], "any==1") is None
    assert on([ACCEPTED, replace(affected, made_at=NOW)], "any==1") is not None


def changed(document: Mapping[str, Any], value: Any, *path: str | int) -> Any:
    copy = json.loads(json.dumps(document))
    place = copy
    for key in path[:-1]:
        place = place[key]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return copy


S, V = ("statements", 0), ("vulnerabilities", 1)
UNTIL = [{"name": "thoth:accepted-until", "value": "soon"}]


@pytest.mark.parametrize(
    ("document", "field", "reason"),
    [
        ([], "$", Reason.WRONG_TYPE),
        ({"spdxVersion": "2.3"}, "$", Reason.UNKNOWN_SCHEMA),
        (changed(OPENVEX, "exploitable", *S, "status"), "statements[0].status",
         Reason.OUT_OF_RANGE),
        (changed(OPENVEX, ..., *S, "status"), "statements[0].status", Reason.MISSING_FIELD),
        (changed(OPENVEX, "because", *S, "justification"), "statements[0].justification",
         Reason.OUT_OF_RANGE),
        (changed(OPENVEX, "not_affected", "statements", 1, "status"),
         "statements[1].justification", Reason.MISSING_FIELD),
        (changed(OPENVEX, "pkg:pypi", *S, "products", 0, "@id"),
         "statements[0].products[0].@id", Reason.OUT_OF_RANGE),
        (changed(OPENVEX, "pkg:pypi/a@latest", *S, "products", 0, "@id"),
         "statements[0].products[0].@id", Reason.INVALID_VERSION),
        (changed(OPENVEX, "2027-01-01T00:00:00Z", *S, "timestamp"), "statements[0].timestamp",
         Reason.FUTURE_TIMESTAMP),
        (changed(CYCLONEDX, 7, *V, "id"), "vulnerabilities[1].id", Reason.WRONG_TYPE),
        (changed(CYCLONEDX, "fixed", *V, "analysis", "state"), "vulnerabilities[1].analysis.state",
         Reason.OUT_OF_RANGE),
        (changed(CYCLONEDX, UNTIL, *V, "properties"), "vulnerabilities[1].properties[0].value",
         Reason.OUT_OF_RANGE),
        (changed(CYCLONEDX, [{**UNTIL[0], "value": "9999-12-31"}], *V[:1], 2, "properties"),
         "vulnerabilities[2].analysis.detail", Reason.MISSING_FIELD),
    ],
)  # fmt: skip
def test_invalid_vex_document_is_refused_with_its_field(
    document: Any, field: str, reason: Reason
) -> None:
    with raised(InvalidFile, place="a.json", field=field, reason=reason):
        read(document)


def test_binary_data_is_refused_as_a_vex_document() -> None:
    deep = b'{"bomFormat": "CycloneDX", "components": ' + b"[" * 5000 + b"]" * 5000 + b"}"
    hostile = {
        b"": Reason.INVALID_JSON,
        b"\xff\xfe\xfd": Reason.NOT_UTF8,
        b"[" * 100_000: Reason.INVALID_JSON,
        deep: Reason.INVALID_JSON,
        b'{"a": ' * 200 + b"1" + b"}" * 200: Reason.NESTED_TOO_DEEP,
        b'{"bomFormat": "Cyclone\\u0000DX"}': Reason.NUL_CHARACTER,
        b'{"a": "' + b"x" * 9 * 2**20 + b'"}': Reason.FILE_TOO_LARGE,
    }
    for data, reason in hostile.items():
        with raised(InvalidFile, reason=reason):
            read_vex("a.json", data, NOW)


WRONG = (
    ..., None, True, 0, -1.5, "", "pkg:", "pkg:pypi/%", "1" * 5_000, "pkg:pypi/a@" + "1" * 5_000,
    [], [[]], [1], {},
)  # fmt: skip


def paths(value: Any, *at: str | int) -> Iterator[tuple[str | int, ...]]:
    yield from [at] if at else []
    if isinstance(value, (dict, list)):
        for key in [*value] if isinstance(value, dict) else range(len(value)):
            yield from paths(value[key], *at, key)


@pytest.mark.parametrize("document", [OPENVEX, CYCLONEDX], ids=["openvex", "cyclonedx"])
def test_wrong_value_in_a_vex_document_is_refused_without_a_crash(document: dict[str, Any]) -> None:
    for path in paths(document):
        for value in WRONG:
            wrong = changed(document, value, *path)
            try:
                statements = read(wrong)
            except InvalidFile:
                continue
            on(statements, "jinja2==3.1.2")
            if wrong.get("bomFormat") == "CycloneDX":
                with_acceptance(json.dumps(wrong).encode(), "jinja2", ["CVE-2026-1"], ACCEPTED)


def test_recorded_vulnerability_acceptance_replaces_only_the_earlier_one() -> None:
    names = ["CVE-2026-1", "GHSA-aaaa-bbbb-cccc", "PYSEC-2026-1"]
    first = with_acceptance(None, "jinja2", names, ACCEPTED)
    assert with_acceptance(None, "jinja2", names, ACCEPTED) == first
    (statement,) = read_vex("thoth.vex.json", first, NOW)
    assert replace(statement, names=ACCEPTED.names, products=ACCEPTED.products) == ACCEPTED
    later = replace(ACCEPTED, until="2026-12-31")
    second = with_acceptance(first, "jinja2", names[1:], later)
    both = with_acceptance(json.dumps(CYCLONEDX).encode(), "flask", names[:1], ACCEPTED)
    validator = JsonStrictValidator(SchemaVersion.V1_6)
    for data in (first, second, both):
        assert validator.validate_str(data.decode()) is None
    assert [it.until for it in read_vex("a", second, NOW)] == ["2026-12-31"]
    assert json.loads(second)["version"] == 2
    kept = json.loads(both)["vulnerabilities"]
    assert kept[:3] == CYCLONEDX["vulnerabilities"]
    assert on(read_vex("a", both, NOW), "flask==9") is not None
    with raised(InvalidArgument):
        with_acceptance(json.dumps(OPENVEX).encode(), "jinja2", names, ACCEPTED)
