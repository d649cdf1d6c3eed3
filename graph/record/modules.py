"""Importable modules and the releases that provide them, according to names read from wheels."""

from collections import defaultdict
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Annotated, Any

from sqlalchemy import Connection, Row, func, select

from graph.record.postgresql_helpers import texts
from graph.tables import ArtifactRow, PackageVersionRow
from model.declared_fields import INDEX, PACKAGE, Field
from model.packages.identity import version_key
from model.packages.import_names import ImportNames, ImportSource, parents_of

#: Source of the names of a wheel that was unpacked (``thoth analyze wheel --ingest``).
UNPACKED_WHEEL = "unpacked-wheel"
_BY_PACKAGE = attrgetter("name", "index")


@dataclass(frozen=True, slots=True)
class ProvidedModule:
    """A release that provides an importable module.

    :param module: the module, or the package of the release in which it lies
    :param source: how the names of the release were learnt: a value of
        :class:`model.packages.import_names.ImportSource`, or :data:`UNPACKED_WHEEL`
    """

    name: str
    version: str
    index: str
    module: str
    source: str


@dataclass(frozen=True, slots=True)
class ModuleProvider:
    """A package on an index with releases that provide a module."""

    name: Annotated[str, PACKAGE]
    index: Annotated[str, INDEX]
    module: Annotated[str, Field("The module, or the package in which it lies.", "google.protobuf")]
    source: Annotated[
        str,
        Field(
            "How the names of the newest release were read.", values=(*ImportSource, UNPACKED_WHEEL)
        ),
    ]
    versions: Annotated[int, Field("Number of known releases that provide it.", 25)]
    oldest: Annotated[str, Field("The oldest of these releases.", "4.21.0")]
    newest: Annotated[str, Field("The newest of these releases.", "6.33.0")]


def providers_of(connection: Connection, module: str) -> list[ProvidedModule]:
    """Releases that provide a module, by name and version.

    A release of which only some names are known might contain the module. Such a release is left
    out if another release certainly contains the module.

    :param module: such as ``sklearn`` or ``google.protobuf``; case-sensitive
    """
    certain: list[ProvidedModule] = []
    possible: list[ProvidedModule] = []
    for names, provided in _candidates(connection, module):
        providers = certain if names.complete or provided.module == module else possible
        providers.append(provided)
    return sorted(certain or possible, key=lambda it: (it.name, version_key(it.version), it.index))


def module_providers(connection: Connection, module: str) -> list[ModuleProvider]:
    """Packages that provide a module, by name and index; see :func:`providers_of`."""
    ordered = sorted(providers_of(connection, module), key=_BY_PACKAGE)
    providers = []
    for (name, index), releases in groupby(ordered, _BY_PACKAGE):
        first, *others = releases
        last = others[-1] if others else first
        providers.append(
            ModuleProvider(
                name, index, last.module, last.source, 1 + len(others), first.version, last.version
            )
        )
    return providers


def releases_without_names(connection: Connection, name: str) -> int:
    """Number of releases of a package that were read, but whose module names are unknown."""
    version = PackageVersionRow
    query = select(func.count()).where(
        version.name == name, version.imports.is_(None), version.state == "solved",
        ~select(ArtifactRow.sha256).where(ArtifactRow.purl == version.purl).exists(),
    )  # fmt: skip
    return connection.scalar(query) or 0


@dataclass(frozen=True, slots=True)
class PackageModule:
    """An importable module of a package; namespaces above other modules are left out."""

    module: Annotated[str, Field("Dotted name of the module.", "google.protobuf")]
    releases: Annotated[int, Field("Number of releases that provide it.", 6)]
    oldest: Annotated[str, Field("The oldest version that provides it.", "3.20.0")]
    newest: Annotated[str, Field("The newest version that provides it.", "6.33.0")]


@dataclass(frozen=True, slots=True)
class PackageModules:
    """The importable modules of a package, by name.

    :param releases: number of releases whose modules are known
    """

    modules: tuple[PackageModule, ...]
    releases: int


def modules_of(connection: Connection, name: str) -> PackageModules:
    """The modules of all releases of a package; two queries."""
    version, artifact = PackageVersionRow, ArtifactRow
    read = select(version.purl, version.version, version.imports).where(
        version.name == name, version.imports.is_not(None)
    )
    unpacked = (
        select(version.purl, version.version, artifact.imports)
        .join(artifact, artifact.purl == version.purl)
        .where(version.name == name)
    )
    versions: dict[str, str] = {}
    names: dict[str, set[str]] = defaultdict(set)
    for query in (read, unpacked):
        for purl, text, imports in connection.execute(query):
            versions[purl] = text
            names[purl].update(imports or ())
    providing: dict[str, set[str]] = defaultdict(set)
    for purl, imported in names.items():
        for module in imported - {it for each in imported for it in parents_of(each)}:
            providing[module].add(purl)
    modules = []
    for module, purls in sorted(providing.items()):
        ordered = sorted((versions[it] for it in purls), key=version_key)
        modules.append(PackageModule(module, len(purls), ordered[0], ordered[-1]))
    return PackageModules(tuple(modules), len(versions))


def _candidates(connection: Connection, module: str) -> list[tuple[ImportNames, ProvidedModule]]:
    version, artifact = PackageVersionRow, ArtifactRow
    wanted = texts([module, *parents_of(module)])
    columns = (version.purl, version.name, version.version, version.index_name)
    read = select(*columns, version.imports, version.imports_source).where(
        version.imports.op("&&")(wanted)
    )
    unpacked = (
        select(*columns, artifact.imports, version.imports_source)
        .join(artifact, artifact.purl == version.purl)
        .where(artifact.imports.op("&&")(wanted))
    )
    names_by_purl: dict[str, tuple[ImportNames, ProvidedModule]] = {}
    for row in connection.execute(read):
        names_by_purl |= _provided_names(row, module, row.imports_source)
    for row in connection.execute(unpacked):
        # Analyses from before 0.2.0 have top-level names only; a directory tells more.
        if row.imports_source != ImportSource.DIRECTORY:
            names_by_purl |= _provided_names(row, module, UNPACKED_WHEEL)
    return list(names_by_purl.values())


def _provided_names(
    row: Row[*tuple[Any, ...]], module: str, source: str
) -> dict[str, tuple[ImportNames, ProvidedModule]]:
    """The release of a row, keyed by package URL; empty if it does not provide the module."""
    purl, name, version, index, imports, _ = row
    # All names of an unpacked wheel are known, as those of a whole directory are.
    kind = ImportSource.DIRECTORY if source == UNPACKED_WHEEL else ImportSource(source)
    names = ImportNames(tuple(imports), kind)
    provided = names.provides(module)
    if provided is None:
        return {}
    return {purl: (names, ProvidedModule(name, version, index, provided, source))}
