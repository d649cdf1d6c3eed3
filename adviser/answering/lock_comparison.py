"""Compare two locks with data from the stores, for ``thoth guard``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from adviser.answering.answers import known_of
from adviser.answering.index_selection import asked_indexes
from adviser.guard import (
    GuardResult,
    MissingKind,
    changes_of,
    guard,
    versions_without_candidate,
)
from adviser.projects.locks import ProjectLock
from adviser.projects.project import Project
from adviser.scoring.criteria import RecommendationType
from adviser.stack_request import RequestOptions, StackRequest
from common.environments import Environment
from common.settings import Settings
from graph.candidates import Dependency, KnownVulnerability
from graph.engine import Stores
from graph.record.vulnerability_queries import vulnerabilities_of


def guarded(
    stores: Stores,
    old: Mapping[str, str],
    new: Mapping[str, str],
    environment: Environment,
    hardware: str | None,
) -> GuardResult:
    """Compare two locks, each given as version by package name.

    :raises StoreUnavailable: if a store does not answer
    """
    names = sorted({*old, *new})
    snapshot, evidence = known_of(stores, names, environment, with_excluded=True)
    with stores.engine.connect() as connection:
        vulnerabilities = {
            (name, version): [
                KnownVulnerability(it.vulnerability_id, it.severity, it.score)
                for it in vulnerabilities_of(connection, name, version)
            ]
            for name, version in versions_without_candidate(old, new, snapshot)
        }
    return guard(old, new, snapshot, evidence, environment, hardware, vulnerabilities)


def lacks_metadata(upgrade: GuardResult) -> bool:
    """Whether the metadata of a new version was never read."""
    return any(it.kind is MissingKind.METADATA and it.remedy for it in upgrade.missing)


def changed_versions(old: Mapping[str, str], new: Mapping[str, str]) -> list[Dependency]:
    """Versions of changed packages as requirements."""
    return [
        Dependency(it.name, f"=={version}")
        for it in changes_of(old, new)
        for version in (it.forced, it.advised)
        if version is not None
    ]


def request_of_locks(
    settings: Settings, locks: Iterable[ProjectLock], environment: Environment
) -> StackRequest:
    """A request without requirements, with the indexes that the locks name."""
    indexes = tuple(dict.fromkeys(index for lock in locks for index in lock.indexes))
    project = Project(indexes=indexes)
    options = RequestOptions(indexes=asked_indexes(settings, project))
    return StackRequest(project, environment, RecommendationType.LATEST, options)
