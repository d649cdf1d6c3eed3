"""Projects packages, versions with requirements and native interfaces, vulnerabilities and stacks.

A package's revision is written after all versions that it covers. While versions are written, the
package has a random revision, so that no existing snapshot counts as current.
"""

from collections.abc import Iterable
from uuid import uuid4

import neo4j
from sqlalchemy import ARRAY, Connection, Text, any_, exists, func, literal, null, select

from graph.projection.kinds import (
    EdgeKind,
    NodeKind,
    Row,
    array_or_null,
    edge_kind,
    fixed_query,
    origin,
    properties_of,
)
from graph.projection.upsert import (
    ImmutableNode,
    MutableNode,
    chunks,
    consume,
    create_missing,
    missing,
    upsert,
    write,
)
from graph.tables import (
    AffectedVersion,
    ArtifactInterface,
    ArtifactRow,
    Document,
    IndexProject,
    NativeEnvironmentInterface,
    NativeEnvironmentRow,
    NativeInterfaceRow,
    PackageRow,
    PackageVersionRow,
    RequirementRow,
    StackPackage,
    StackRow,
    VulnerabilityRow,
)

_INVALIDATE_PACKAGES = """
UNWIND $names AS name MATCH (package:Package {name: name})
SET package.revision = $revision
"""
_INVALIDATE_AFFECTED = """
UNWIND $ids AS id
MATCH (:Vulnerability {vulnerability_id: id})-[:AFFECTS]->(:PackageVersion)
      <-[:HAS_VERSION]-(package:Package)
WITH DISTINCT package SET package.revision = $revision
"""
_INVALIDATE_ALL = """
MATCH (package:Package) WHERE package.revision IS NOT NULL
WITH package LIMIT $limit
SET package.revision = null
RETURN count(*) AS invalidated
"""
#: Limit for the packages whose revision is removed in one transaction.
_INVALIDATED = 20_000


def invalidate_version_revisions(tx: neo4j.ManagedTransaction, rows: Iterable[Row]) -> None:
    """Set a random revision for the packages of these versions.

    :param rows: rows of package versions; the second value is the package's name
    """
    names = sorted({row[1] for row in rows})
    consume(tx.run(_INVALIDATE_PACKAGES, names=names, revision=_random_revision()))


def invalidate_affected_revisions(tx: neo4j.ManagedTransaction, rows: Iterable[Row]) -> None:
    """Set a random revision for the packages that these vulnerabilities affect."""
    ids = [row[0] for row in rows]
    consume(tx.run(_INVALIDATE_AFFECTED, ids=ids, revision=_random_revision()))


def invalidate_all_revisions(session: neo4j.Session) -> None:
    """Remove the revisions of all packages."""
    while session.execute_write(
        lambda tx: tx.run(_INVALIDATE_ALL, limit=_INVALIDATED).single(strict=True)["invalidated"]
    ):
        pass


def _random_revision() -> str:
    return f"unsettled:{uuid4().hex}"


VULNERABILITY = NodeKind(
    label="Vulnerability",
    rows=select(*properties_of(VulnerabilityRow), *origin()).join(
        Document, Document.document_id == VulnerabilityRow.document_id
    ),
    owner=VulnerabilityRow.vulnerability_id,
)

VULNERABILITIES = MutableNode(node=VULNERABILITY, written=invalidate_affected_revisions)

_INDEX = PackageVersionRow.index_name
_VERSION = PackageVersionRow

PACKAGE = NodeKind(label="Package", rows=select(*properties_of(PackageRow)), owner=PackageRow.name)

PACKAGE_INDEX = NodeKind(
    label="PackageIndex",
    rows=select(
        _INDEX.label("name"), func.min(PackageVersionRow.document_id).label("document_id")
    ).group_by(_INDEX),
    owner=PackageVersionRow.purl,
    shared=True,
)

_NOT_PROJECTED = ("problem_message", "license", "metadata_file", "facts", "as_of", "ranks")

PACKAGE_VERSION = NodeKind(
    label="PackageVersion",
    rows=select(*properties_of(_VERSION, _NOT_PROJECTED, index_name="index"), *origin()).join(
        Document,
        Document.document_id == func.coalesce(_VERSION.release_document_id, _VERSION.document_id),
    ),
    owner=_VERSION.purl,
)

HAS_VERSION = edge_kind(
    "HAS_VERSION", PACKAGE, PACKAGE_VERSION, (_VERSION.name, _VERSION.purl), of_end=True
)
PUBLISHED_ON = edge_kind("PUBLISHED_ON", PACKAGE_VERSION, PACKAGE_INDEX, (_VERSION.purl, _INDEX))

REQUIRES = EdgeKind(
    type="REQUIRES",
    start=PACKAGE_VERSION,
    end=PACKAGE,
    rows=select(
        RequirementRow.purl.label("start"),
        RequirementRow.name.label("end"),
        RequirementRow.specifier,
        RequirementRow.marker,
        array_or_null(RequirementRow.for_extras).label("extra"),
        array_or_null(RequirementRow.extras).label("extras"),
        RequirementRow.url,
        RequirementRow.problem,
    ).where(RequirementRow.name.is_not(None)),
    owner=RequirementRow.purl,
)

HAS_STATUS = EdgeKind(
    type="HAS_STATUS",
    start=PACKAGE,
    end=PACKAGE_INDEX,
    rows=select(
        IndexProject.name.label("start"),
        IndexProject.index_name.label("end"),
        IndexProject.status,
        IndexProject.status_reason.label("reason"),
    ).where(
        IndexProject.status != "active",
        # Otherwise there may be no node of the package or of the index.
        exists().where(_VERSION.name == IndexProject.name, IndexProject.index_name == _INDEX),
    ),
    owner=IndexProject.name,
)

AFFECTS = edge_kind(
    "AFFECTS",
    VULNERABILITY,
    PACKAGE_VERSION,
    (AffectedVersion.vulnerability_id, AffectedVersion.purl),
    of_end=True,
)


def create_versions(tx: neo4j.ManagedTransaction, nodes: list[Row], edges: list[list[Row]]) -> None:
    """Create versions with all their edges in a few statements.

    Many versions require the same packages. Each package is looked up once, and edges refer to the
    package by its position in the list of packages. If each edge had its own look-up, the look-ups
    would take a third of the time on ArcadeDB and half of the time on Neo4j. Versions without
    requirements need a separate statement, because the other statement returns the number of
    written edges.
    """
    packages, indexes, requires, affects = edges
    names = {row[0] for row in packages} | {row[1] for row in requires}
    existing = tx.run(PACKAGE.existing, keys=[*names])
    positions = {name: position for position, (name,) in enumerate(existing)}
    consume(existing)
    index_of = dict(indexes)
    requirements: dict[str, list[Row]] = {}
    for purl, name, *values in requires:
        if name in positions:
            requirements.setdefault(purl, []).append([positions[name], *values])
    rows = [
        [positions[row[1]], index_of[row[0]], requirements.get(row[0], []), *row] for row in nodes
    ]
    requiring, bare = [row for row in rows if row[2]], [row for row in rows if not row[2]]
    for query, batch, count in (
        (_CREATE_REQUIRING, requiring, sum(len(row[2]) for row in requiring)),
        (_CREATE_BARE, bare, len(bare)),
    ):
        if batch and _written_count(tx.run(query, names=[*positions], rows=batch)) != count:
            raise RuntimeError("the graph did not return the packages in the order of their names")
    write(tx, AFFECTS.create, affects)


def _written_count(result: neo4j.Result) -> int:
    count = int(result.single(strict=True)["written"])
    consume(result)
    return count


#: A row is ``[position of the package, index, requirements, *properties]``, a requirement
#: ``[position of the package, *properties]``.
_CREATE_BARE = fixed_query(
    "UNWIND $names AS name MATCH (package:Package {name: name})"
    " WITH collect(package) AS packages, collect(package.name) AS present WHERE present = $names"
    " UNWIND $rows AS row WITH row, packages, packages[row[0]] AS package"
    " MATCH (index:PackageIndex {name: row[1]})"
    f" CREATE (version:PackageVersion {PACKAGE_VERSION.values('row', 3)})"
    ", (package)-[:HAS_VERSION]->(version)-[:PUBLISHED_ON]->(index)"
    " RETURN count(version) AS written"
)
_CREATE_REQUIRING = fixed_query(
    _CREATE_BARE.removesuffix("RETURN count(version) AS written")
    + "WITH version, packages, row[2] AS requirements UNWIND requirements AS requirement"
    " WITH version, requirement, packages[requirement[0]] AS package"
    f" CREATE (version)-{REQUIRES.pattern('requirement', 1)}->(package)"
    " RETURN count(*) AS written"
)

#: A package without its revision, which is written when all its versions are in the graph.
_NAMED_PACKAGE = NodeKind(
    label="Package",
    rows=select(PackageRow.name, null().label("revision"), PackageRow.document_id),
    owner=PackageRow.name,
)
PACKAGES = MutableNode(node=PACKAGE, edges=(HAS_STATUS,), named=_NAMED_PACKAGE)
PACKAGE_VERSIONS = MutableNode(
    node=PACKAGE_VERSION,
    shared=(PACKAGE_INDEX,),
    edges=(HAS_VERSION, PUBLISHED_ON, REQUIRES, AFFECTS),
    needs=(PACKAGES, VULNERABILITIES),
    create=create_versions,
    written=invalidate_version_revisions,
)

NATIVE_INTERFACE = NodeKind(
    label="NativeInterface",
    rows=select(*properties_of(NativeInterfaceRow)),
    owner=NativeInterfaceRow.interface,
)

ARTIFACT = NodeKind(
    label="Artifact",
    rows=select(*properties_of(ArtifactRow, without=("purl",)), *origin()).join(
        Document, Document.document_id == ArtifactRow.document_id
    ),
    owner=ArtifactRow.sha256,
)

NATIVE_ENVIRONMENT = NodeKind(
    label="NativeEnvironment",
    rows=select(*properties_of(NativeEnvironmentRow), *origin()).join(
        Document, Document.document_id == NativeEnvironmentRow.document_id
    ),
    owner=NativeEnvironmentRow.digest,
)

BUILT_AS = edge_kind(
    "BUILT_AS", PACKAGE_VERSION, ARTIFACT, (ArtifactRow.purl, ArtifactRow.sha256), of_end=True
)
NEEDS = edge_kind(
    "NEEDS", ARTIFACT, NATIVE_INTERFACE, (ArtifactInterface.sha256, ArtifactInterface.interface)
)
PROVIDES = edge_kind(
    "PROVIDES",
    NATIVE_ENVIRONMENT,
    NATIVE_INTERFACE,
    (NativeEnvironmentInterface.digest, NativeEnvironmentInterface.interface),
)

NATIVE_INTERFACES = MutableNode(node=NATIVE_INTERFACE)
ARTIFACTS = MutableNode(
    node=ARTIFACT, edges=(BUILT_AS, NEEDS), needs=(PACKAGE_VERSIONS, NATIVE_INTERFACES)
)
NATIVE_ENVIRONMENTS = MutableNode(
    node=NATIVE_ENVIRONMENT, edges=(PROVIDES,), needs=(NATIVE_INTERFACES,)
)

STACK = NodeKind(
    label="Stack",
    rows=select(StackRow.digest, StackRow.package_count, StackRow.document_id),
    owner=StackRow.digest,
)

INCLUDES = edge_kind(
    "INCLUDES", STACK, PACKAGE_VERSION, (StackPackage.stack_digest, StackPackage.purl)
)

STACKS = ImmutableNode(node=STACK, edges=(INCLUDES,))

NODES = (
    PACKAGE, PACKAGE_INDEX, VULNERABILITY, PACKAGE_VERSION, NATIVE_INTERFACE, ARTIFACT,
    NATIVE_ENVIRONMENT, STACK,
)  # fmt: skip
EDGES = (
    HAS_VERSION, HAS_STATUS, PUBLISHED_ON, REQUIRES, AFFECTS, BUILT_AS, NEEDS, PROVIDES, INCLUDES,
)  # fmt: skip


def project_stacks(connection: Connection, session: neo4j.Session, keys: Iterable[str]) -> None:
    """Create the missing stacks among ``keys``; missing package versions are created first."""
    for chunk in chunks(missing(session, STACK, keys)):
        included = select(StackPackage.purl).where(
            StackPackage.stack_digest == any_(literal(chunk, ARRAY(Text)))
        )
        purls = connection.scalars(included.distinct()).all()
        # Existing versions have outbox entries of their own when they change.
        upsert(connection, session, PACKAGE_VERSIONS, missing(session, PACKAGE_VERSION, purls))
        create_missing(connection, session, STACKS, chunk)
