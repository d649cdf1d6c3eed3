"""Stores analyses in the record and the graph, and compares wheels with environments."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlalchemy import Connection

from common.settings import Settings
from graph.engine import Stores
from graph.migrate import migrated_stores
from graph.missing_interfaces import MissingInterface, missing_interfaces
from graph.projection import sync
from graph.record.native import (
    KnownArtifact,
    KnownEnvironment,
    add_analysis,
    artifacts_by_hash,
    artifacts_of,
    environments_called,
)
from ingest.native.wheels import architectures_of, parse_pin
from model.errors import InvalidArgument, ProjectError, StoreUnavailable
from model.packages.environments import machine_family
from model.packages.identity import package_version
from model.packages.native_libraries import Analysis
from model.packages.wheels import parse_wheel

_HASH = re.compile(r"(?:sha256:)?([0-9a-f]{8,64})")


@dataclass(frozen=True, slots=True)
class RecordedAnalysis:
    """Result of storing an analysis.

    :param new: ``False`` if the analysis was in the record already
    :param graph_error: why the projection to the graph failed, if it did
    """

    new: bool
    graph_error: ProjectError | None = None


@dataclass(frozen=True, slots=True)
class InterfaceDifference:
    """Interfaces that a wheel needs and an environment lacks.

    :param architectures: architectures of the wheel if the environment has another architecture,
        otherwise empty
    """

    artifact: KnownArtifact
    environment: KnownEnvironment
    missing: tuple[MissingInterface, ...]
    architectures: tuple[str, ...] = ()


def record_analysis(settings: Settings, analysis: Analysis, source: str) -> RecordedAnalysis:
    """Store an analysis and project it to the graph."""
    with migrated_stores(settings, graph=False) as stores:
        with stores.engine.begin() as connection:
            new = add_analysis(connection, settings, analysis, source)
        try:
            with migrated_stores(settings, relational=False) as opened:
                sync(stores.engine, opened.driver, database=opened.database)
        except ProjectError as error:
            return RecordedAnalysis(new, error)
    return RecordedAnalysis(new)


def differences(
    settings: Settings, wheel: str, environment: str, index: str | None = None
) -> list[InterfaceDifference]:
    """Return the interfaces that recorded wheels need and a recorded environment lacks.

    :param wheel: package URL, ``NAME==VERSION``, or a prefix of the SHA-256
    :param environment: name, or prefix of the digest; of environments with one name, the newest
        counts
    :raises InvalidArgument: if the wheel or the environment is not recorded
    """
    with migrated_stores(settings) as stores:
        with stores.engine.connect() as connection:
            artifacts = _artifacts(connection, wheel, index)
            provider = _environment(connection, environment)
        return [_difference(stores, artifact, provider) for artifact in artifacts]


def _artifacts(connection: Connection, wheel: str, index: str | None) -> list[KnownArtifact]:
    if match := _HASH.fullmatch(wheel):
        known = artifacts_by_hash(connection, match[1])
    elif wheel.startswith("pkg:"):
        known = artifacts_of(connection, wheel)
    else:
        wanted = parse_pin(wheel)
        purl = package_version(wanted.name, str(wanted.version), index).purl
        known = artifacts_of(connection, purl)
    if not known:
        raise InvalidArgument(
            f"no wheel {wheel!r} is recorded: `thoth analyze wheel … --ingest` records one"
        )
    return known


def _environment(connection: Connection, wanted: str) -> KnownEnvironment:
    known = environments_called(connection, wanted)
    if not known:
        raise InvalidArgument(
            f"no environment {wanted!r} is recorded: `thoth analyze host --ingest` or "
            "`thoth analyze image … --ingest` records one"
        )
    return known[0]


def _difference(
    stores: Stores, artifact: KnownArtifact, environment: KnownEnvironment
) -> InterfaceDifference:
    with stores.driver.session(database=stores.database) as session:
        missing = session.execute_read(missing_interfaces, artifact.sha256, environment.digest)
    if missing is None:
        raise StoreUnavailable(
            "the graph", "it does not show the analyses yet", "run `thoth graph sync`"
        )
    machines = architectures_of(parse_wheel(artifact.filename).tags)
    family = machine_family(environment.architecture)
    others = () if family in map(machine_family, machines) else machines
    return InterfaceDifference(artifact, environment, tuple(missing), tuple(sorted(others)))
