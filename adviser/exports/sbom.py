"""A lock as a software bill of materials in CycloneDX 1.6."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from urllib.parse import quote
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.contrib.hash.factories import HashTypeFactory
from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashType, Property, XsUri
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import LicenseAcknowledgement
from cyclonedx.model.tool import ToolRepository
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from adviser.answering.lock_comparison import LockKnowledge, compare_lock_versions
from adviser.guard import known_version
from adviser.guard_findings import findings_of
from adviser.projects.locks import ProjectLock
from adviser.reports.serialization import plain
from adviser.scoring.stack_pairs import name_of, release_order, version_of_purl
from common import __version__
from common.formats.locks.entries import LockEntry
from common.formats.requirements_files import SourceKind
from model.json_documents import digest, digest_bytes
from model.packages.candidates import Candidate
from model.packages.environments import Environment
from model.packages.identity import index_identity, public_index_url, same_version
from model.redaction import without_secrets

#: Lengths in digits of the hashes that the schema admits.
_DIGITS = {"md5": 32, "sha1": 40, "sha256": 64, "sha384": 96, "sha512": 128}


@dataclass(frozen=True, slots=True)
class ComponentFacts:
    """Known facts about a locked version that its lock does not contain.

    :param licence: as declared
    :param requires: names of the packages that it requires; ``None`` if unknown
    :param measured: sentences about measurements
    :param evidence: address and owner of the measurements
    """

    licence: str | None = None
    requires: tuple[str, ...] | None = None
    measured: tuple[str, ...] = ()
    evidence: tuple[tuple[str, str], ...] = ()


_NO_FACTS = ComponentFacts()


def bill_of_materials(
    lock: ProjectLock,
    data: bytes,
    environment: Environment,
    at: datetime,
    facts: Mapping[str, ComponentFacts],
    direct: Collection[str] = (),
) -> bytes:
    """The packages that a lock installs in an environment, as CycloneDX 1.6.

    Equal arguments give equal bytes. The serial number does not depend on the time.

    :param data: the bytes of the lock
    :param facts: by name
    :param direct: names of the packages that the project itself requires, as far as these are known
    """
    locked = lock.packages(environment.markers)
    components = {name: _component(it, lock, facts.get(name, _NO_FACTS))
                  for name, it in locked.items()}  # fmt: skip
    others = {it.name: _foreign(it) for it in lock.others if it.holds(environment.markers)}
    is_listed = any(it.dependencies for it in locked.values())
    requires = {
        name: it.dependencies if is_listed else facts.get(name, _NO_FACTS).requires
        for name, it in locked.items()
    }
    uncovered = (it.what for it in lock.elsewhere if it.what.partition(" (")[0] not in others)
    is_known = not others and None not in requires.values()
    notes = [
        ("thoth:environment", environment.label),
        ("thoth:dependencies", "known" if is_known else "partly unknown"),
        *(("thoth:not-covered", it) for it in dict.fromkeys(uncovered)),
    ]
    content = [digest_bytes(data), lock.source, notes, plain(facts), __version__, sorted(direct)]
    about = Component(
        name=lock.source, type=ComponentType.FILE, bom_ref="lock", hashes=_hashes(content[:1])
    )
    bom = Bom(
        components=[*components.values(), *others.values()],
        serial_number=uuid5(NAMESPACE_URL, digest(content)),
        metadata=BomMetaData(
            timestamp=at, component=about, properties=_properties(notes),
            tools=ToolRepository(components=[
                Component(name="thoth", version=__version__, type=ComponentType.APPLICATION)
            ]),
        ),
    )  # fmt: skip
    every = components | others
    required = {it for name, them in requires.items() for it in them or () if it != name}
    required.difference_update(direct)
    bom.register_dependency(about, [it for name, it in every.items() if name not in required])
    for name, them in requires.items():
        needs = [every[it] for it in them or () if it in every and it != name]
        bom.register_dependency(components[name], needs)
    return f"{JsonV1Dot6(bom).output_as_string(indent=2)}\n".encode()


def _component(entry: LockEntry, lock: ProjectLock, facts: ComponentFacts) -> Component:
    named = {it.name: it.url for it in lock.indexes}
    default = next((it.url for it in lock.indexes if it.default), None)
    index = named.get(entry.index or "", entry.index) or default
    place = _uri(index or public_index_url())
    is_public = index_identity(place) == index_identity(public_index_url())
    where = None if is_public else {"repository_url": place}
    purl = PackageURL("pypi", None, entry.name, entry.version, where)
    page = f"{place.rstrip('/')}/{entry.name}/"
    files: list[tuple[str, str | None, tuple[str, ...]]] = [
        (_uri(it.url or page), it.filename, (f"sha256:{it.sha256}",) if it.sha256 else ())
        for it in entry.files
    ] or [(page, None if index else "the lock names no index", entry.hashes)]
    licence = facts.licence and LicenseFactory().make_from_string(
        facts.licence, license_acknowledgement=LicenseAcknowledgement.DECLARED
    )
    kinds = ExternalReferenceType
    references = [(kinds.DISTRIBUTION, *it) for it in files]
    references += [(kinds.EVIDENCE, *it, ()) for it in facts.evidence]
    return Component(
        name=entry.name, version=entry.version, purl=purl, bom_ref=purl.to_string(),
        scope=ComponentScope.EXCLUDED if entry.dev else None,
        licenses=[licence] if licence else (),
        external_references=[
            ExternalReference(type=kind, url=XsUri(url), comment=what, hashes=_hashes(hashes))
            for kind, url, what, hashes in references
        ],
        properties=_properties(("thoth:measured", it) for it in facts.measured),
    )  # fmt: skip


def _foreign(entry: LockEntry) -> Component:
    """A package that comes from no index."""
    kinds = {SourceKind.REPOSITORY: "vcs_url", SourceKind.ADDRESS: "download_url"}
    key = kinds.get(entry.source) if entry.source else None
    where, version = {key: _uri(entry.target)} if key else None, entry.version or None
    return Component(
        name=entry.name, version=version, bom_ref=f"foreign:{entry.name}",
        purl=PackageURL("pypi", None, entry.name, version, where) if key else None,
        properties=_properties([("thoth:source", without_secrets(entry.target))]),
    )  # fmt: skip


def _properties(pairs: Iterable[tuple[str, str]]) -> list[Property]:
    return [Property(name=name, value=value) for name, value in pairs]


def _hashes(texts: Iterable[str]) -> Iterator[HashType]:
    for algorithm, _, digits in (it.partition(":") for it in texts):
        if _DIGITS.get(algorithm) == len(digits):
            yield HashTypeFactory().from_hashlib_alg(algorithm, digits)


def _uri(text: str) -> str:
    """An address without secrets and fragment, as the schema admits it."""
    bare = without_secrets(text).partition("#")[0]
    return re.sub(r"%(?![0-9A-Fa-f]{2})|[\x00-\x20\\^`|]", lambda it: quote(it[0]), bare)


def component_facts(
    knowledge: LockKnowledge,
    locked: Mapping[str, LockEntry],
    environment: Environment,
    hardware: str,
    licences: Mapping[tuple[str, str], str | None],
) -> dict[str, ComponentFacts]:
    """Known facts about the versions of a lock, by name.

    Each version is compared with the measured version before it, as ``thoth guard`` compares.

    :param knowledge: with the packages of the lock in all versions
    :param hardware: digest of the hardware class
    :param licences: by name and version
    """
    new = {name: it.version for name, it in locked.items()}
    measured = {it for purls in knowledge.evidence.stacks.values() for it in purls}
    before, ours = dict[str, str](), set[str]()
    for purl in sorted((it for it in measured if name_of(it) in new), key=release_order):
        name, version = name_of(purl), version_of_purl(purl)
        if same_version(version, new[name]):
            ours.add(name)
        elif name not in ours:
            before[name] = version
    old = {name: before.get(name, it) if name in ours else it for name, it in new.items()}
    upgrade = compare_lock_versions(knowledge, old, new, environment, hardware)
    # Each sentence stands alone, so it says hardware and origin itself.
    upgrade = replace(upgrade, speed_only=False)
    claims = (*upgrade.claims, *upgrade.undetermined, *upgrade.shown)
    findings = [it for it in findings_of(upgrade) if (it.known_by or "").startswith("measured")]
    facts = {}
    for name, version in new.items():
        known = known_version(knowledge.snapshot, name, version)
        evidence = (
            (f"reports/{it.comparison_key}", "own record") if it.origin is None
            else (it.origin.pack, f"pack {it.origin.name}")
            for it in claims if it.package == name
        )  # fmt: skip
        facts[name] = ComponentFacts(
            licences.get((name, version)),
            tuple(it.name for it in known.requirements(locked[name].extras))
            if isinstance(known, Candidate) and known.read else None,
            tuple(it.message for it in findings if it.package == name),
            tuple(dict.fromkeys(evidence)),
        )  # fmt: skip
    return facts
