"""VEX documents: statements on vulnerabilities, and temporary acceptances.

OpenVEX documents and the vulnerabilities of CycloneDX documents are read. An acceptance is recorded
as CycloneDX, whose properties have a place for its last day; OpenVEX has none.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Any, NamedTuple
from urllib.parse import unquote

from packageurl import PackageURL
from packaging.utils import canonicalize_name, canonicalize_version

from common.formats.file_decoding import FileTable, check_sizes, json_of, value_text
from model.errors import InvalidArgument, Reason
from model.json_documents import as_json_time
from model.json_fields import FieldPath
from model.measurements.evidence import VulnerabilityDetails
from model.packages.identity import version_of

#: Name of the document beside a lock.
VEX_FILE = "thoth.vex.json"
#: Property of CycloneDX with the last day of an acceptance.
_UNTIL = "thoth:accepted-until"


class VexStatus(StrEnum):
    """The status of a vulnerability in a document, with the values of OpenVEX."""

    NOT_AFFECTED = "not_affected"
    AFFECTED = "affected"
    FIXED = "fixed"
    UNDER_INVESTIGATION = "under_investigation"


_OPENVEX_JUSTIFICATIONS = (
    "component_not_present", "vulnerable_code_not_present", "vulnerable_code_not_in_execute_path",
    "vulnerable_code_cannot_be_controlled_by_adversary", "inline_mitigations_already_exist",
)  # fmt: skip
_CYCLONEDX_STATES = {
    "not_affected": VexStatus.NOT_AFFECTED, "false_positive": VexStatus.NOT_AFFECTED,
    "resolved": VexStatus.FIXED, "resolved_with_pedigree": VexStatus.FIXED,
    "exploitable": VexStatus.AFFECTED, "in_triage": VexStatus.UNDER_INVESTIGATION,
}  # fmt: skip
_CYCLONEDX_JUSTIFICATIONS = (
    "code_not_present", "code_not_reachable", "requires_configuration", "requires_dependency",
    "requires_environment", "protected_by_compiler", "protected_at_runtime",
    "protected_at_perimeter", "protected_by_mitigating_control",
)  # fmt: skip


class VexProduct(NamedTuple):
    """A version of a package, both in canonical form; ``None`` is any name or version."""

    name: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class VexStatement:
    """A statement of a document on a vulnerability.

    :param names: identifiers of the vulnerability, in capitals
    :param reason: justification and explanation in one line; may be empty
    :param source: the document
    :param until: last day of an acceptance (UTC), such as ``2027-01-31``; ``None`` for others
    :param products: empty if it names only products that are in no Python index
    """

    names: frozenset[str]
    status: VexStatus
    reason: str
    source: str
    until: str | None = None
    products: tuple[VexProduct, ...] = (VexProduct(),)
    made_at: datetime | None = None

    def closes(self, today: date) -> bool:
        """Whether the vulnerability does not count as open."""
        if self.until is not None:
            return today.isoformat() <= self.until
        return self.status in (VexStatus.NOT_AFFECTED, VexStatus.FIXED)

    def is_about(self, name: str, version: str) -> bool:
        """Whether a version, in canonical form, is among its products."""
        return any(
            it.name in (None, name) and it.version in (None, version) for it in self.products
        )

    def text(self, *, closed: bool) -> str:
        """``accepted until 2027-01-31: only our own templates (thoth.vex.json)``."""
        verb = "accepted" if closed else "was accepted"
        what = f"{verb} until {self.until}" if self.until else self.status.replace("_", " ")
        return f"{what}{f': {self.reason}' if self.reason else ''} ({self.source})"


class VexStatements:
    """The statements of documents on known vulnerabilities on a day.

    :param known: known vulnerabilities with their aliases, by identifier
    """

    def __init__(
        self,
        statements: Iterable[VexStatement],
        known: Mapping[str, VulnerabilityDetails],
        today: date,
    ) -> None:
        def order(statement: VexStatement) -> tuple[bool, datetime]:
            is_accepted = statement.until is not None and statement.closes(today)
            return is_accepted, statement.made_at or datetime.min.replace(tzinfo=UTC)

        # Of equals, the last one counts.
        self._statements = sorted(statements, key=order)[::-1]
        self._known, self._today = known, today
        self._about: dict[str, list[VexStatement]] = {}

    def on(self, name: str, version: str, vulnerability: str) -> VexStatement | None:
        """The statement on a vulnerability in a version that counts: an acceptance that has not
        expired, or else the newest statement.

        :param vulnerability: its identifier; a statement may name it by any alias
        """
        about = self._about.get(vulnerability)
        if about is None:
            details = self._known.get(vulnerability)
            names = {it.upper() for it in (vulnerability, *(details.aliases if details else ()))}
            about = [it for it in self._statements if names & it.names]
            self._about[vulnerability] = about
        version = canonicalize_version(version)
        return next((it for it in about if it.is_about(name, version)), None)

    def closing(self, name: str, version: str, vulnerability: str) -> VexStatement | None:
        """Why a vulnerability in a version does not count as open; ``None`` if it does."""
        statement = self.on(name, version, vulnerability)
        return statement if statement is not None and statement.closes(self._today) else None


NO_STATEMENTS = VexStatements((), {}, date.min)


def read_vex(source: str, data: bytes, now: datetime) -> list[VexStatement]:
    """The statements of an OpenVEX or a CycloneDX document.

    :param source: name of the file
    :raises InvalidFile: with the field
    """
    check_sizes({source: data})
    content = json_of(source, data, "correct the document there")
    document = FileTable(content, FieldPath(f"{source}:$"))
    if document.get("bomFormat") == "CycloneDX":
        return list(_of_cyclonedx(document, source, now))
    if str(document.get("@context")).startswith("https://openvex.dev/ns"):
        return list(_of_openvex(document, source, now))
    raise document.invalid(Reason.UNKNOWN_SCHEMA, "neither an OpenVEX nor a CycloneDX document")


def _of_openvex(document: FileTable, source: str, now: datetime) -> Iterator[VexStatement]:
    for statement in document.each("statements"):
        about, text = statement.nested("vulnerability"), statement.text
        statement.required_text("status")
        status = VexStatus(_one_of(statement, "status", [*VexStatus]))
        why = _one_of(statement, "justification", _OPENVEX_JUSTIFICATIONS), text("impact_statement")
        if status is VexStatus.NOT_AFFECTED and not any(why):
            message = f"is missing, as is impact_statement, and {status} needs one of them"
            raise statement.invalid(Reason.MISSING_FIELD, message, "justification")
        products: list[VexProduct | None] = []
        for product in statement.each("products"):
            own, parts = _product(product), map(_product, product.each("subcomponents"))
            # What is part of another package is not the package of an index.
            products += [own] if not product.get("subcomponents") else () if own else parts
        yield VexStatement(
            _names(about, "name", about.texts("aliases")), status,
            _line(*why, text("action_statement"), text("status_notes")), source, None,
            tuple(filter(None, products)) if statement.get("products") else (VexProduct(),),
            _first_time(now, (statement, "last_updated"), (statement, "timestamp"),
                        (document, "last_updated"), (document, "timestamp")),
        )  # fmt: skip


def _product(component: FileTable) -> VexProduct | None:
    """The package of a component of OpenVEX; ``None`` if it is in no Python index."""
    for table, key in ((component, "@id"), (component.nested("identifiers"), "purl")):
        if (text := table.text(key) or "").startswith("pkg:"):
            return _of_purl(text, table, key)
    return None


def _of_cyclonedx(document: FileTable, source: str, now: datetime) -> Iterator[VexStatement]:
    metadata = document.nested("metadata")
    subject, components = metadata.nested("component"), dict[str | None, VexProduct | None]()
    pending = [subject, *document.each("components")]
    for component in pending:
        pending += component.each("components")
        purl = component.text("purl")
        product = _of_purl(purl, component, "purl") if purl else None
        # What the document describes as a whole stands for every package.
        whole = VexProduct() if component is subject else None
        components[component.text("bom-ref")] = product or whole
    for vulnerability in document.each("vulnerabilities"):
        analysis, until = vulnerability.nested("analysis"), _accepted_until(vulnerability)
        products = tuple(_affected(vulnerability, components))
        if not (state := _one_of(analysis, "state", _CYCLONEDX_STATES)):
            continue
        detail = analysis.text("detail")
        if until is not None and detail is None:
            message = "is missing: say why the vulnerability is accepted"
            raise analysis.invalid(Reason.MISSING_FIELD, message, "detail")
        references = vulnerability.each("references")
        aliases = [it.required_text("id") for it in references]
        justification = _one_of(analysis, "justification", _CYCLONEDX_JUSTIFICATIONS)
        yield VexStatement(
            _names(vulnerability, "id", aliases), _CYCLONEDX_STATES[state],
            _line(justification, detail), source, until,
            products if vulnerability.get("affects") else (VexProduct(),),
            _first_time(now, (analysis, "lastUpdated"), (analysis, "firstIssued"),
                        (vulnerability, "updated"), (metadata, "timestamp")),
        )  # fmt: skip


def _accepted_until(vulnerability: FileTable) -> str | None:
    for entry in vulnerability.each("properties"):
        if entry.get("name") == _UNTIL:
            text = entry.required_text("value")
            try:
                return date.fromisoformat(text).isoformat()
            except ValueError:
                message = f"{value_text(text)} is not a day such as 2027-01-31"
                raise entry.invalid(Reason.OUT_OF_RANGE, message, "value") from None
    return None


def _affected(
    vulnerability: FileTable, components: Mapping[str | None, VexProduct | None]
) -> Iterator[VexProduct]:
    for affected in vulnerability.each("affects"):
        ref = affected.required_text("ref")
        # A link to another document ends with a reference in it, which often is a purl.
        text = unquote(ref.partition("#")[2]) if ref.startswith("urn:cdx:") else ref
        product = components.get(ref)
        if product is None and text.startswith("pkg:"):
            product = _of_purl(text, affected, "ref")
        if product is not None and not affected.get("versions"):
            yield product
        for entry in affected.each("versions") if product else ():
            # What is said of a range holds for no version here: that leaves vulnerabilities open.
            if "version" in entry and entry.get("status") != "unaffected":
                version = _checked_version(entry.required_text("version"), entry, "version")
                yield VexProduct(product and product.name, version)


def _of_purl(text: str, table: FileTable, key: str) -> VexProduct | None:
    """The package of a Package URL; ``None`` if it is in no Python index."""
    try:
        purl = PackageURL.from_string(text)
    except ValueError:
        message = f"{value_text(text)} is not a Package URL"
        raise table.invalid(Reason.OUT_OF_RANGE, message, key) from None
    if purl.type != "pypi":
        return None
    version = purl.version and _checked_version(purl.version, table, key)
    return VexProduct(canonicalize_name(purl.name), version or None)


def _checked_version(text: str, table: FileTable, key: str) -> str:
    # Python refuses to convert numbers of thousands of digits; real versions are short.
    if len(text) > 128 or version_of(text) is None:
        message = f"{value_text(text)} is not a version by PEP 440"
        raise table.invalid(Reason.INVALID_VERSION, message, key)
    return canonicalize_version(text)


def _one_of(table: FileTable, key: str, known: Collection[str]) -> str:
    """A value that must be known; empty if it is missing."""
    value = table.text(key) or ""
    if value and value not in known:
        message = f"{value_text(value)} is none of {', '.join(known)}"
        raise table.invalid(Reason.OUT_OF_RANGE, message, key)
    return value


def _first_time(now: datetime, *places: tuple[FileTable, str]) -> datetime | None:
    return next(filter(None, (table.time(key, now) for table, key in places)), None)


def _names(table: FileTable, key: str, aliases: Iterable[str]) -> frozenset[str]:
    name = table.required_text(key)
    return frozenset(it.strip().upper() for it in (name, *aliases))


def _line(*texts: str | None) -> str:
    return "; ".join(" ".join(it.split()) for it in texts if it)


def with_acceptance(
    data: bytes | None, package: str, names: Sequence[str], accepted: VexStatement
) -> bytes:
    """A CycloneDX document with an acceptance, in place of an earlier one.

    :param data: the document, as :func:`read_vex` accepts it; ``None`` for a new one
    :param names: identifier of the vulnerability, and its aliases
    :raises InvalidArgument: if it is an OpenVEX document
    """
    document: dict[str, Any] = json.loads(
        data or '{"bomFormat": "CycloneDX", "specVersion": "1.6"}'
    )
    if "bomFormat" not in document:
        raise InvalidArgument(
            f"{accepted.source}: OpenVEX has no place for the last day of an acceptance",
            hint=f"name a CycloneDX document first with --vex, or none for {VEX_FILE}",
        )
    ref, known = f"pkg:pypi/{package}", {it.upper() for it in names}
    version = document.get("version")
    document["version"] = version + 1 if isinstance(version, int) else 1
    components = document["components"] = document.get("components") or []
    if all(it.get("bom-ref") != ref for it in components):
        components.append({"type": "library", "bom-ref": ref, "name": package, "purl": ref})

    def is_earlier(entry: Mapping[str, Any]) -> bool:
        accepts = any(it.get("name") == _UNTIL for it in entry.get("properties") or ())
        refs = [it["ref"] for it in entry.get("affects") or ()]
        identifiers = {
            str(it.get("id")).upper() for it in (entry, *(entry.get("references") or ()))
        }
        return accepts and refs == [ref] and not known.isdisjoint(identifiers)

    sources = [{"id": it, "source": {"name": it.partition("-")[0]}} for it in names[1:]]
    document["vulnerabilities"] = [
        *(it for it in document.get("vulnerabilities") or () if not is_earlier(it)),
        {
            "id": names[0],
            "references": sources,
            "analysis": {
                "state": "exploitable", "response": ["will_not_fix"], "detail": accepted.reason,
                "lastUpdated": as_json_time(accepted.made_at),
            },
            "affects": [{"ref": ref}],
            "properties": [{"name": _UNTIL, "value": accepted.until}],
        },
    ]  # fmt: skip
    return f"{json.dumps(document, indent=2, ensure_ascii=False)}\n".encode()
