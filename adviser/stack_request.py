"""What is asked of the adviser: a project, where it is to run, and by what measure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from adviser.projects.project import Project, ProjectRequirement
from adviser.resolver.resolver_request import Budget, ResolverRequest
from adviser.scoring.criteria import RecommendationType
from common.environments import Environment
from common.errors import InvalidFile
from common.formats.file_fields import refuse, shown
from common.packages import DEFAULT_INDEX, Purl
from common.reasons import Reason
from common.terminal import first_few
from graph.candidate_builder import roots_of
from graph.candidates import Dependency


def selected_requirements(
    project: Project, *, dev: bool = False, extras: Iterable[str] = (), groups: Iterable[str] = ()
) -> tuple[ProjectRequirement, ...]:
    """Those that always count, then development's, those of extras and of groups.

    :raises InvalidFile: naming what there is, if the project has no such extra or group
    """
    asked = [*project.requirements, *(project.dev if dev else ())]
    for kind, known, wanted in (
        ("extra", project.extras, extras), ("group", project.groups, groups)
    ):  # fmt: skip
        for name in wanted:
            asked += _named(project, kind, known, name)
    # Where it stands is no difference; the first place is told.
    first: dict[ProjectRequirement, ProjectRequirement] = {}
    for it in asked:
        first.setdefault(replace(it, origin=""), it)
    return tuple(first.values())


def overridden(
    asked: Iterable[ProjectRequirement],
    overrides: Iterable[ProjectRequirement],
    markers: Mapping[str, str],
) -> tuple[ProjectRequirement, ...]:
    """Requirements with each that is overridden replaced by what holds of that, as uv does.

    Where nothing of it holds, the requirement is gone. Its own marker stays.
    """
    instead: dict[str, list[ProjectRequirement]] = {}
    for it in overrides:
        held = instead.setdefault(it.name, [])
        if it.holds(markers):
            held.append(it)
    return tuple(
        replace(it, specifier=other.specifier, extras=other.extras) if other is not it else it
        for it in asked
        for other in instead.get(it.name, [it])
    )


def check_python(project: Project, markers: Mapping[str, str]) -> None:
    """Refuse a Python that the project itself excludes.

    :raises InvalidFile: naming both
    """
    python = markers["python_full_version"]
    wanted = project.requires_python
    if wanted is not None and not SpecifierSet(wanted).contains(python, prereleases=True):
        refuse(
            Reason.CONFLICTING_FIELDS,
            f"Python {python} is asked about, and the project requires {wanted}",
            f"{project.source}:requires-python",
            "ask about a Python that it admits (`--python`), or change the bound",
        )


def _named(
    project: Project, kind: str, known: Mapping[str, tuple[ProjectRequirement, ...]], name: str
) -> tuple[ProjectRequirement, ...]:
    found = known.get(name, known.get(canonicalize_name(name)))
    if found is None:
        raise InvalidFile(
            Reason.MISSING_FIELD,
            f"has no {kind} {shown(name)}",
            place=project.source,
            field=f"{kind}s",
            hint=f"it has {first_few(sorted(known), 20) or 'none'}",
        )
    return found


#: How long a search may take, and how much memory, if nobody says otherwise.
TIME_LIMIT_S = 10.0
MEMORY_LIMIT_BYTES = 2 * 1024**3


@dataclass(frozen=True, slots=True)
class RequestIndex:
    """An index that packages may come from.

    :param name: as this machine and the record call it
    :param called: as the project calls it, and as its lock will
    :param url: without credentials
    :param explicit: whether only packages that name it come from there
    :param known: whether this machine is configured with it
    """

    name: str = DEFAULT_INDEX
    called: str = DEFAULT_INDEX
    url: str = ""
    verify_ssl: bool = True
    explicit: bool = False
    known: bool = True


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """What a request says beside its project.

    :param count: how many stacks, best first
    :param dev: whether development's requirements count too
    :param exclusions: versions that are not to be chosen, an empty specifier for all of them
    :param overrides: by name, what replaces whatever anybody asks of the package
    :param published_before: releases since then are left out (a cooldown)
    :param allowed_vulnerabilities: identifiers that are accepted
    :param indexes: in the order in which they are searched
    :param debug: report what the search was made of
    :param labels: kept with the advice, and part of what is reported
    :param described: the runtime environment in the client's own words, given back as it came
    :param stack_info: notes of the client, put before the report's own; texts only
    :param justification: the same, of every product
    :param time_s: what a search may take
    :param memory_bytes: of the search; ``None`` for no limit
    """

    count: int = 1
    dev: bool = False
    debug: bool = False
    extras: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    constraints: tuple[Dependency, ...] = ()
    exclusions: tuple[Dependency, ...] = ()
    overrides: Mapping[str, str] = field(default_factory=dict)
    prereleases: frozenset[str] = frozenset()
    published_before: datetime | None = None
    published_after: datetime | None = None
    allowed_vulnerabilities: frozenset[str] = frozenset()
    indexes: tuple[RequestIndex, ...] = (RequestIndex(),)
    labels: Mapping[str, str] = field(default_factory=dict)
    described: Mapping[str, Any] | None = None
    stack_info: tuple[Mapping[str, str], ...] = ()
    justification: tuple[Mapping[str, str], ...] = ()
    time_s: float = TIME_LIMIT_S
    memory_bytes: int | None = MEMORY_LIMIT_BYTES

    def budget(self, threads: int = 1) -> Budget:
        """What a search may spend; nothing but its duration depends on ``threads``."""
        return Budget(self.time_s, self.memory_bytes, threads)


@dataclass(frozen=True, slots=True)
class StackRequest:
    """One request, whole: with a snapshot and evidence it has one answer.

    :param hardware: digest of the hardware class that the stack is to run on, if it is known
    :param hardware_note: for a person, where nothing was measured on that class
    """

    project: Project
    environment: Environment
    kind: RecommendationType
    options: RequestOptions = field(default_factory=RequestOptions)
    hardware: str | None = None
    hardware_note: str | None = None

    @property
    def requirements(self) -> tuple[ProjectRequirement, ...]:
        """What is asked for, wherever it holds.

        :raises InvalidFile: if an extra or a group is none of the project's, or it excludes
            the environment's Python
        """
        project, options, markers = self.project, self.options, self.environment.markers
        check_python(project, markers)
        asked = selected_requirements(
            project, dev=options.dev, extras=options.extras, groups=options.groups
        )
        kept = (it for it in asked if it.name not in project.removed)
        return overridden(kept, self._overrides, markers)

    @property
    def _overrides(self) -> tuple[ProjectRequirement, ...]:
        """Those of the project that the request does not replace."""
        return tuple(it for it in self.project.overrides if it.name not in self.options.overrides)

    @property
    def roots(self) -> tuple[Dependency, ...]:
        """What of it holds in the environment, as the snapshot has it."""
        return roots_of((it.text for it in self.requirements), self.environment)

    @property
    def locked(self) -> Mapping[str, str] | None:
        """The versions that the project has now; ``None`` without a lock.

        What only development needs counts only when that is asked for.
        """
        entries = self.project.locked_in(self.environment.markers)
        if entries is None:
            return None
        return {n: it.version for n, it in entries.items() if self.options.dev or not it.dev}

    def index_named(self, called: str) -> str:
        """What this machine calls an index of the project."""
        return next((it.name for it in self.options.indexes if it.called == called), called)

    def resolver_request(self, refused: Mapping[Purl, str]) -> ResolverRequest:
        """The rules for the resolver.

        :param refused: versions that the recommendation type leaves out, with the words
        """
        project, options = self.project, self.options
        markers = self.environment.markers
        held = [it for it in self.requirements if it.holds(markers)]
        bounds = [it for it in project.constraints if it.holds(markers)]
        instead: dict[str, list[ProjectRequirement]] = {it.name: [] for it in self._overrides}
        for it in self._overrides:
            if it.holds(markers):
                instead[it.name].append(it)
        welcome = {it.name for it in (*held, *bounds) if it.prereleases}
        return ResolverRequest(
            roots=self.roots,
            constraints=(*(it.dependency for it in bounds), *options.constraints),
            exclusions=options.exclusions,
            overrides={
                **{name: _all_of(it) for name, it in instead.items() if it},
                **options.overrides,
            },
            removed=project.removed | {name for name, it in instead.items() if not it},
            bare=frozenset(
                name for name, it in instead.items() if it and not any(o.extras for o in it)
            ),
            prereleases=project.prereleases | options.prereleases | frozenset(welcome),
            all_prereleases=project.all_prereleases or self.kind.admits_prereleases,
            published_before=options.published_before,
            published_after=options.published_after,
            indexes=tuple(it.name for it in options.indexes if not it.explicit),
            index_of={it.name: self.index_named(it.index) for it in held if it.index is not None},
            refused=refused,
        )


def _all_of(overrides: Iterable[ProjectRequirement]) -> str:
    """The specifier of all of them together."""
    return ",".join(sorted({it.specifier for it in overrides} - {""}))
