"""The manifest, dependency graph and lock input of a project and a stack."""

from collections.abc import Mapping
from typing import Any

from adviser.advise import Advice
from adviser.locks.formats import LockablePackage, LockOptions
from adviser.projects.pipfile import pipfile_of
from adviser.reports.serialization import plain
from adviser.reports.version_rationale import candidates_of
from adviser.resolver.results import ResolvedStack
from model.packages.identity import Purl
from model.packages.releases import ReleaseFile

#: Files of releases by Package URL.
Files = Mapping[Purl, tuple[ReleaseFile, ...]]


def dependencies_of(advice: Advice, stack: ResolvedStack) -> dict[str, tuple[str, ...]]:
    """For each package of a stack, the packages of the stack that it requires, sorted."""
    candidates = candidates_of(advice.universe, stack)
    return {
        choice.name: tuple(
            sorted(
                {
                    wanted.name
                    for wanted in candidates[choice.name].requirements(choice.extras)
                    if wanted.name in candidates and wanted.name != choice.name
                }
            )
        )
        for choice in stack.choices
    }


def chosen_of(
    advice: Advice, stack: ResolvedStack, files: Files, urls: Mapping[str, str] | None = None
) -> list[LockablePackage]:
    """The packages of a stack by name, as input for writers of locks.

    :param urls: URLs of files by file name, if known
    """
    candidates, needs = candidates_of(advice.universe, stack), dependencies_of(advice, stack)
    known = urls or {}
    return [
        LockablePackage(
            name=choice.name,
            version=choice.version,
            index=candidates[choice.name].index,
            files=files.get(choice.purl, ()),
            extras=choice.extras,
            dependencies=needs[choice.name],
            requires_python=candidates[choice.name].requires_python,
            urls={
                file.filename: known[file.filename]
                for file in files.get(choice.purl, ())
                if file.filename in known
            },
        )
        for choice in stack.choices
    ]


def lock_options(advice: Advice) -> LockOptions:
    """Options of a lock: environment, indexes and upload date limit."""
    indexes = {it.name: it.url for it in advice.request.options.indexes if it.url}
    options = advice.request.options
    return LockOptions(
        advice.request.environment, indexes, published_before=options.published_before
    )


def manifest_of(advice: Advice) -> dict[str, Any]:
    """The project's own Pipfile as JSON, or one made from its direct requirements."""
    pipfile = dict(plain(pipfile_of(advice.request.project, lock_options(advice).indexes)))
    pipfile.setdefault("dev-packages", {})
    return pipfile


def graph_of(advice: Advice, stack: ResolvedStack) -> dict[str, Any]:
    """Package names, and requirements between them as pairs of indexes into the names.

    Clients look up every direct requirement of the manifest. A requirement with a false marker is
    listed after the packages of the stack, without edges.
    """
    needs = dependencies_of(advice, stack)
    names = sorted(needs)
    places = {name: place for place, name in enumerate(names)}
    edges = [[places[name], places[it]] for name in names for it in needs[name]]
    return {"nodes": [*names, *sorted(_direct(advice) - needs.keys())], "edges": edges}


def _direct(advice: Advice) -> set[str]:
    manifest = manifest_of(advice)
    sections = ("packages", "dev-packages") if advice.request.options.dev else ("packages",)
    return {name for section in sections for name in manifest.get(section, {})}
