"""Comparisons of two locks: the answer of ``thoth guard``, and the knowledge behind it."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from flask import Response
from marshmallow import Schema, ValidationError, fields, validate

from adviser.answering.lock_comparison import (
    LockKnowledge,
    compare_lock_versions,
    guard_document,
    knowledge_of_locks,
    not_compared,
    not_compared_lines,
    proposals_for,
    side_document,
)
from adviser.answering.target_hardware import find_classes, requested_hardware
from adviser.guard import (
    GuardOutcome,
    MissingKnowledge,
    Proposal,
    VersionVulnerability,
    YankedVersion,
)
from adviser.guard_findings import Finding
from adviser.packs.stored_packs import known_hardware
from adviser.projects.locks import PYPROJECT, ProjectLock, read_lock, require_pins
from api.access import needs, token, wrote_nothing
from api.http.project_files import ProjectFiles, public_file
from api.http.request_context import reading
from api.http.schema_fields import (
    FreshnessSchema,
    StrictSchema,
    choice,
    count,
    described,
    flag,
    json_object,
    no_nul,
    schema_of,
    text,
    texts,
)
from api.jobs.request_submission import sender
from api.resources.advice import EnvironmentSchema
from api.resources.base import DIGEST, Resources, freshness
from api.resources.stacks import HardwareNameSchema, stack_labels
from api.store_access import answer_within, service
from common.formats.locks.entries import LockSelection
from graph.record.access import Scope
from graph.record.packages import version_count
from graph.record.stacks import stack_named
from graph.snapshot_reader import CheckTime
from model.declared_fields import BUNDLED_STEPS
from model.errors import InvalidArgument
from model.measurements.evidence import RecordedHardware
from model.measurements.inspection import Stack
from model.packages.environments import Environment, environment
from model.packages.identity import VersionChange, package_version

#: Platform of locks if the request names none; never that of the server.
_PLATFORM = "linux_x86_64"
#: Maximum length of a lock.
_MAX_TEXT = 3 * 1024**2
#: Maximum number of packages of a lock.
MAX_PACKAGES = 2_000
#: Maximum number of versions of these packages; reading them from the graph takes some 10 s.
MAX_VERSIONS = 100_000


def read_lock_knowledge(
    old: Mapping[str, str],
    new: Mapping[str, str],
    environment: Environment,
    recorded: Sequence[RecordedHardware],
    hardware: Collection[str] | None = None,
) -> LockKnowledge:
    """The knowledge of the stores about two locks, each given as version by package name.

    The caller holds a place of ``lock_readers``.

    :param recorded: all recorded hardware classes
    :param hardware: digests of the hardware classes whose measurements are read; by default all
    :raises InvalidArgument: if the packages have too many versions or measurements
    :raises StoreUnavailable: if a store does not answer in time
    """
    stores = service()
    with stores.reading() as connection:
        versions = version_count(connection, {*old, *new})
    if versions > MAX_VERSIONS:
        raise InvalidArgument(
            f"the packages of the locks have {versions} versions, but at most {MAX_VERSIONS}"
            " are read"
        )

    def ask(check_time: CheckTime) -> LockKnowledge:
        with stores.stores() as opened:
            sides = old, new, environment
            known = knowledge_of_locks(opened, *sides, recorded, hardware, check_time)
            return known.of_locks(*sides, hardware or ())

    return answer_within(stores.settings.hung_store_s, ask)


def _lock_file(description: str) -> ProjectFiles:
    return ProjectFiles(
        keys=fields.String(),
        values=fields.String(validate=validate.And(validate.Length(max=_MAX_TEXT), no_nul)),
        required=True,
        validate=_one_lock,
        metadata={
            **described(description, {"requirements.txt": "numpy==2.3.5\n"}),
            "minProperties": 1,
        },
    )


def _one_lock(files: Mapping[str, str]) -> None:
    if len(files.keys() - _manifests(files)) != 1:
        raise ValidationError("one lock is needed; only a pyproject.toml may be given beside it")


def _manifests(files: Mapping[str, str]) -> set[str]:
    return {it for it in files if it.rpartition("/")[2] == PYPROJECT}


def _names(description: str, example: str) -> fields.List[Any]:
    name = fields.String(validate=validate.And(validate.Length(1, 200), no_nul))
    return fields.List(
        name, load_default=list, validate=validate.Length(max=100),
        metadata=described(description, [example]),
    )  # fmt: skip


class LockSelectionSchema(StrictSchema):
    """Which packages of both locks are installed, by options of the tool that writes them."""

    extras = _names("Extras of the project.", "gpu")
    groups = _names("Dependency groups; the environment of a `pixi.lock`.", "test")
    members = _names("Members of a workspace instead of its root.", "core")
    all_members = fields.Boolean(
        load_default=False, metadata=described("All members of a workspace.", False)
    )
    default_groups = fields.Boolean(
        load_default=True, metadata=described("Groups that the tool installs by default.", True)
    )


class LockFilesSchema(StrictSchema):
    """Two locks as files, and where they are to run."""

    old = _lock_file("Content of the old lock by its file name, which decides the format.")
    new = _lock_file("Content of the new lock by its file name.")
    environment = fields.Nested(EnvironmentSchema, load_default=dict)
    selection = fields.Nested(
        LockSelectionSchema, load_default=lambda: LockSelectionSchema().load({})
    )


class UncoveredEntrySchema(Schema):
    """An entry of a lock that comes from no index, or pins no version."""

    what = text("Name, URL or path.", "./lib")
    kind = text("Why it is not covered, such as `repository` or `conda`.", "local_path")


class LockedStackSchema(Schema):
    """The packages of a lock as a stack."""

    stack_digest = text("Digest of the stack.", DIGEST)
    label = text("Name for people.", "numpy 2.4.6 (1f2e3d4c)")
    package_count = count("Number of packages.", 12)
    measured = flag("Whether exactly this stack was inspected, on any hardware.")
    packages = json_object("Version of each package, by normalised name.")
    not_covered = fields.List(
        fields.Nested(UncoveredEntrySchema), required=True,
        metadata={"description": "Entries of the lock that come from no index."},
    )  # fmt: skip


VersionChangeSchema = schema_of("VersionChange", VersionChange)
LockVulnerabilitySchema = schema_of("LockVulnerability", VersionVulnerability)
YankedVersionSchema = schema_of("YankedVersion", YankedVersion)
MissingKnowledgeSchema = schema_of("MissingKnowledge", MissingKnowledge)
FindingSchema = schema_of("Finding", Finding)
ProposedVersionSchema = schema_of(
    "ProposedVersion", Proposal, message=text("The proposal, for people.", "instead: numpy 2.4.5")
)


class LockComparisonSchema(FreshnessSchema):
    """The differences of two locks."""

    outcome = choice("Verdict on the new lock.", [it.value for it in GuardOutcome])
    old = fields.Nested(LockedStackSchema, required=True)
    new = fields.Nested(LockedStackSchema, required=True)
    hardware = fields.Nested(HardwareNameSchema, required=True, allow_none=True)
    family = json_object("Number of comparisons and the error rate that they share.")
    changes = fields.List(fields.Nested(VersionChangeSchema), required=True)
    stacks = fields.List(
        json_object("A settled comparison."), required=True,
        metadata={"description": "Settled comparisons of the two locks as a whole."},
    )  # fmt: skip
    claims = fields.List(
        json_object("A settled comparison."), required=True,
        metadata={"description": "Settled comparisons of single packages."},
    )  # fmt: skip
    undetermined = fields.List(
        json_object("An undetermined comparison."), required=True,
        metadata={"description": "Undetermined comparisons that could change the outcome."},
    )  # fmt: skip
    groups = fields.Dict(
        keys=fields.String(), values=fields.List(fields.Nested(FindingSchema)), required=True,
        metadata=described("Findings in sentences by group, each with its evidence.", {}),
    )  # fmt: skip
    proposals = fields.List(fields.Nested(ProposedVersionSchema), required=True)
    untried = count("Number of harmful packages for which no proposal was tried.", 0)
    introduced = fields.List(fields.Nested(LockVulnerabilitySchema), required=True)
    removed = fields.List(fields.Nested(LockVulnerabilitySchema), required=True)
    yanked = fields.List(fields.Nested(YankedVersionSchema), required=True)
    missing = fields.List(fields.Nested(MissingKnowledgeSchema), required=True)
    unmeasured = texts("Other packages whose two versions were not compared.", ["flask"])
    speed_only = flag("Whether nothing but speed was looked at; false here.")
    bundled = fields.Dict(
        keys=fields.String(), values=fields.String(), required=True,
        metadata=described(BUNDLED_STEPS.description, BUNDLED_STEPS.example),
    )  # fmt: skip
    refused = count("Number of measurements that are ignored because their documents changed.", 0)
    warnings = texts("Parts of the locks that were left out, in sentences.", [])


blueprint = Resources("lock-comparisons", __name__, description="Comparisons of two locks.")


@blueprint.route("/lock-comparisons", methods=["POST"])
@needs(Scope.READ)
@blueprint.arguments(LockFilesSchema)
@blueprint.response(200, LockComparisonSchema)
def post_lock_comparisons(body: dict[str, Any]) -> dict[str, Any]:
    """Compare two locks by speed, vulnerabilities and yanked versions; nothing is stored.

    The answer is that of `thoth guard`. Without `environment.hardware`, no measurement counts.
    """
    wrote_nothing()
    named = body["environment"]
    selection = LockSelection.of(**body["selection"])
    files = [_public(it, body[it]) for it in ("old", "new")]
    locks = [_read(*it, selection) for it in files]
    python = named.get("python") or next((it.python for it in locks if it.python), None)
    where = environment(python, named.get("platform") or _PLATFORM, named.get("cuda"))
    locks = [_read(*it, selection, where.markers) for it in files]
    old, new = (
        {name: it.version for name, it in lock.packages(where.markers).items()} for lock in locks
    )
    stacks = [
        Stack.of(tuple(package_version(name, it) for name, it in versions.items()))
        for versions in (old, new)
    ]
    with reading() as (connection, progress):
        heads = [stack_named(connection, it.digest) for it in stacks]
        labels = stack_labels(connection, [it.digest for it in stacks])
        recorded = known_hardware(connection, service().settings)
    hardware = requested_hardware(recorded, named["hardware"]) if "hardware" in named else None
    digest = None if hardware is None else hardware.digest
    measured_on = () if digest is None else (digest,)
    with service().lock_readers.place_for(sender(token())):
        known = read_lock_knowledge(old, new, where, recorded, measured_on)
        upgrade = compare_lock_versions(known, old, new, where, digest)
        search = proposals_for(known, old, new, where, digest)
        upgrade = search.with_proposals(upgrade)
    sides = [
        {
            "stack_digest": stack.digest, "label": labels[stack.digest],
            "package_count": len(stack.packages),
            "measured": head is not None and head.inspections > 0,
            **side_document(lock, versions),
        }
        for stack, head, lock, versions in zip(stacks, heads, locks, (old, new), strict=True)
    ]  # fmt: skip
    return {
        **guard_document(upgrade),
        "old": sides[0],
        "new": sides[1],
        "hardware": hardware and {"digest": hardware.digest, "label": hardware.name},
        "warnings": [
            *dict.fromkeys(
                it.text for lock in locks for it in lock.warnings_that("it is not compared")
            ),
            *not_compared_lines(not_compared(locks, where.markers)),
        ],
        **freshness(progress),
    }


def _public(side: str, files: Mapping[str, str]) -> tuple[str, dict[str, bytes]]:
    """The name of the lock, and the files without credentials; all names begin with the side."""
    (name,) = files.keys() - _manifests(files)
    public = {f"{side}/{it}": public_file(it, text).encode() for it, text in files.items()}
    return f"{side}/{name}", public


def _read(
    path: str,
    files: Mapping[str, bytes],
    selection: LockSelection,
    markers: Mapping[str, str] | None = None,
) -> ProjectLock:
    """:raises InvalidFile: if it is not a lock, or lacks a selected part"""
    lock = require_pins(read_lock(path, files, selection, markers))
    if len(lock.entries) > MAX_PACKAGES:
        raise InvalidArgument(f"{path}: more than {MAX_PACKAGES} packages")
    return lock


def _pins(description: str) -> fields.Dict:
    return fields.Dict(
        keys=fields.String(validate=validate.And(validate.Length(1, 200), no_nul)),
        values=fields.String(validate=validate.And(validate.Length(1, 200), no_nul)),
        required=True,
        validate=validate.Length(max=MAX_PACKAGES),
        metadata=described(description, {"numpy": "2.4.6"}),
    )


class LocksSchema(StrictSchema):
    """Two locks and the environment that they are for; by default, the Python of the service."""

    old = _pins("Versions of the old lock, by normalised package name.")
    new = _pins("Versions of the new lock, by normalised package name.")
    environment = fields.Nested(EnvironmentSchema, load_default=dict)


class LockKnowledgeSchema(Schema):
    """The knowledge about two locks; `thoth guard --service` reads it."""

    snapshot = json_object("Metadata of the versions in the locks.")
    evidence = json_object("Measurements, and facts about vulnerabilities.")
    vulnerabilities = fields.List(
        fields.List(fields.Raw()),
        required=True,
        metadata={"description": "Vulnerabilities of uninstallable versions: name, version, list."},
    )
    hardware = fields.List(
        fields.Dict(), required=True, metadata={"description": "Measured hardware classes."}
    )


knowledge_routes = Resources("locks", __name__, description="Knowledge for comparing locks.")


@knowledge_routes.route("/lock-knowledge", methods=["POST"])
@needs(Scope.READ)
@knowledge_routes.arguments(LocksSchema)
@knowledge_routes.response(200, LockKnowledgeSchema)
def post_lock_knowledge(body: dict[str, Any]) -> Response:
    """Return all knowledge that a comparison of two locks needs.

    With `environment.hardware`, only measurements on this hardware class are included.
    """
    wrote_nothing()
    named = body["environment"]
    where = environment(named.get("python"), named.get("platform") or _PLATFORM, named.get("cuda"))
    with reading() as (connection, _):
        recorded = known_hardware(connection, service().settings)
    hardware = None
    if "hardware" in named:
        hardware = [it.digest for it in find_classes(recorded, named["hardware"])]
    with service().lock_readers.place_for(sender(token())):
        knowledge = read_lock_knowledge(body["old"], body["new"], where, recorded, hardware)
    return Response(knowledge.to_json(), mimetype="application/json")
