"""The trust policy: which packs may decide a verdict, and why others may not.

``docs/guides/packs.md`` describes the file of ``PACKS_POLICY``; :file:`packs.toml` is the default.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import date
from fnmatch import fnmatchcase
from importlib.resources import files
from typing import Any, NamedTuple

from adviser.packs.manifest import PackManifest
from common.formats.file_decoding import FileTable, table_of, value_text
from common.settings import Settings
from model.errors import InvalidSettings, Reason
from model.measurements.evidence import EvidencePack
from model.text import counted

POLICY_FILE = "packs.toml"
_FINGERPRINT = re.compile(r"sha256:[0-9a-f]{64}")
_CLASS = re.compile(r"sha256:[0-9a-f]{8,64}")


@dataclass(frozen=True, slots=True)
class TrustRule:
    """What packs that are signed with a key may decide.

    :param key: fingerprint
    :param indicators: patterns of names
    :param classes: digests of hardware classes, or their beginnings
    :param max_age_days: since the last measurement; ``None`` for no limit
    :param min_jobs: of each stack of a comparison
    :param min_sessions: of the pack, and of each comparison
    """

    key: str
    indicators: tuple[str, ...] = ("*",)
    classes: tuple[str, ...] = ("sha256:",)
    max_age_days: float | None = None
    min_jobs: int = 5
    min_sessions: int = 2


@dataclass(frozen=True, slots=True)
class TrustPolicy:
    """The rules by key.

    :param source: name of the file, for people
    """

    rules: Mapping[str, TrustRule]
    source: str


class PackTrust(NamedTuple):
    """Whether measurements of a pack may decide, and a sentence that says why."""

    decides: bool
    reason: str


def read_policy(settings: Settings) -> TrustPolicy:
    """The policy of this installation.

    :raises InvalidFile: with the path of the wrong field
    :raises InvalidSettings: if the file of ``PACKS_POLICY`` cannot be read
    """
    path = settings.packs_policy
    if path is None:
        bundled = files("adviser.packs").joinpath(POLICY_FILE)
        return parse_policy(bundled.read_bytes(), f"the bundled {POLICY_FILE}")
    try:
        return parse_policy(path.read_bytes(), str(path))
    except OSError as error:
        raise InvalidSettings(f"PACKS_POLICY: {path}: {error.strerror or error}") from error


def parse_policy(data: bytes, source: str) -> TrustPolicy:
    """Read a policy strictly: an unknown key is an error, because it could be a misspelled limit.

    :raises InvalidFile: with the path of the wrong field
    """
    table = table_of(source.rpartition("/")[2], data)
    _check_keys(table, {"rules"})
    rules: dict[str, TrustRule] = {}
    for entry in table.each("rules"):
        rule = _rule(entry)
        if rule.key in rules:
            raise entry.invalid(Reason.DUPLICATE_KEY, "another rule has this key", "key")
        rules[rule.key] = rule
    return TrustPolicy(rules, source)


def _rule(entry: FileTable) -> TrustRule:
    _check_keys(entry, {it.name for it in fields(TrustRule)})
    key = entry.required_text("key", "write the fingerprint of a key")
    if not _FINGERPRINT.fullmatch(key):
        message = f"{value_text(key)} is not sha256: and 64 hexadecimal digits"
        raise entry.invalid(Reason.OUT_OF_RANGE, message, "key")
    classes = _list(entry, "classes")
    for position, digest in enumerate(classes):
        if not _CLASS.fullmatch(digest):
            message = f"{value_text(digest)} is not sha256: and at least 8 hexadecimal digits"
            raise entry.invalid(Reason.OUT_OF_RANGE, message, "classes", position)
    values: dict[str, Any] = {
        "indicators": _list(entry, "indicators"),
        "classes": classes,
        "max_age_days": entry.number("max_age_days", 1, 36_500),
        "min_jobs": entry.integer("min_jobs", 5),
        "min_sessions": entry.integer("min_sessions", 1),
    }
    return TrustRule(key, **{name: it for name, it in values.items() if it not in (None, ())})


def _list(entry: FileTable, key: str) -> tuple[str, ...]:
    values = tuple(entry.texts(key))
    if key in entry and not values:
        raise entry.invalid(Reason.OUT_OF_RANGE, "is empty: leave it out to allow all", key)
    return values


def _check_keys(table: FileTable, known: Collection[str]) -> None:
    for key in table:
        if key not in known:
            message = f"not a key of the policy, which has {', '.join(sorted(known))}"
            raise table.invalid(Reason.OUT_OF_RANGE, message, key)


def evidence_pack(
    manifest: PackManifest, key: str | None, policy: TrustPolicy, today: date
) -> EvidencePack:
    """The description of a pack, with what the policy lets it decide.

    :param key: fingerprint of the verified key that signed the pack
    """
    rule = policy.rules.get(key or "")
    names, digests = manifest.indicators, manifest.classes
    indicators = [it for it in names if rule and any(fnmatchcase(it, to) for to in rule.indicators)]
    classes = [it for it in digests if rule and it.startswith(rule.classes)]
    problem = next(_problems(manifest, key, policy, today, indicators, classes), None)
    limits = TrustRule("") if rule is None else rule
    return EvidencePack(
        manifest.digest, manifest.name, key, manifest.licence, manifest.session_count, problem,
        None if indicators == names else tuple(indicators),
        None if classes == digests else tuple(classes),
        limits.min_jobs, limits.min_sessions,
    )  # fmt: skip


def _problems(
    manifest: PackManifest, key: str | None, policy: TrustPolicy, today: date,
    indicators: Collection[str], classes: Collection[str],
) -> Iterator[str]:  # fmt: skip
    """Why no measurement of the pack decides."""
    if key is None:
        yield "nobody signed it"
        return
    rule = policy.rules.get(key)
    if rule is None:
        yield f"{policy.source} does not trust its key"
        return
    age = (today - manifest.measured_until.date()).days
    if age < -1:
        yield "its last job ended in the future"
    if rule.max_age_days is not None and age > rule.max_age_days:
        limit = f"{rule.max_age_days:g}"
        yield f"it was measured {counted(age, 'day')} ago, and {policy.source} allows {limit}"
    if manifest.session_count < rule.min_sessions:
        measured = counted(manifest.session_count, "session")
        yield f"it was measured in {measured}, and {policy.source} asks for {rule.min_sessions}"
    if not indicators:
        yield f"{policy.source} trusts its key for other indicators"
    if not classes:
        yield f"{policy.source} trusts its key for other hardware classes"


def trust_of(pack: EvidencePack, policy: TrustPolicy) -> PackTrust:
    """Whether measurements of a pack may decide on its hardware classes, and why."""
    if pack.problem is not None:
        return PackTrust(False, f"never decides: {pack.problem}")
    names = "" if pack.indicators is None else f" {', '.join(pack.indicators)}"
    return PackTrust(
        True,
        f"decides{names} with {counted(pack.min_sessions, 'session')} and"
        f" {counted(pack.min_jobs, 'job')} of each stack: {policy.source} trusts its key",
    )
