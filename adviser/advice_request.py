"""A request for advice: a project, its environment, the recommendation type and options."""

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from adviser.projects.project import Project, ProjectRequirement
from adviser.resolver.resolver_request import Budget, ResolverRequest
from adviser.scoring.criteria import RecommendationType
from adviser.scoring.target import Target
from common.formats.file_decoding import refuse, value_text
from common.formats.requirements_files import has_variable
from model.errors import InvalidArgument, InvalidFile, Reason
from model.packages.candidate_builder import roots_of
from model.packages.candidates import Dependency
from model.packages.environments import Environment
from model.packages.identity import DEFAULT_INDEX, Purl, name_of_index
from model.packages.releases import parse_requirement
from model.text import first_few


def selected_requirements(
    project: Project, *, dev: bool = False, extras: Iterable[str] = (), groups: Iterable[str] = ()
) -> tuple[ProjectRequirement, ...]:
    """The requirements of a project with the selected extras and groups.

    :raises InvalidFile: if the project has no such extra or group; the hint lists existing ones
    """
    requirements = [*project.requirements, *(project.dev if dev else ())]
    for kind, known, wanted in (
        ("extra", project.extras, extras), ("group", project.groups, groups)
    ):  # fmt: skip
        for name in wanted:
            requirements += _named(project, kind, known, name)
    # Requirements that differ only in their origin count once; the first origin is kept.
    first: dict[ProjectRequirement, ProjectRequirement] = {}
    for it in requirements:
        first.setdefault(replace(it, origin=""), it)
    return tuple(first.values())


def overridden(
    requirements: Iterable[ProjectRequirement],
    overrides: Iterable[ProjectRequirement],
    markers: Mapping[str, str],
) -> tuple[ProjectRequirement, ...]:
    """Replace overridden requirements with the overrides whose markers hold, as uv does.

    A requirement keeps its own marker. A requirement is removed if the markers of none of its
    overrides hold.
    """
    replacements: dict[str, list[ProjectRequirement]] = {}
    for override in overrides:
        held = replacements.setdefault(override.name, [])
        if override.holds(markers):
            held.append(override)
    return tuple(
        replace(it, specifier=other.specifier, extras=other.extras, excluded=other.excluded)
        for it in requirements
        for other in replacements.get(it.name, [it])
    )


def check_python(project: Project, markers: Mapping[str, str], chosen: Iterable[str] = ()) -> None:
    """Check that the project supports the Python of the environment.

    :param chosen: options that add requirements, as in ``Project.option_pythons``

    :raises InvalidFile: if it does not
    """
    python = markers["python_full_version"]
    own = {"the project": project.requires_python, **project.option_pythons}
    for part in ("the project", *chosen):
        alternatives = (own.get(part) or "").split("||")
        if not any(SpecifierSet(it).contains(python, prereleases=True) for it in alternatives):
            refuse(
                Reason.CONFLICTING_FIELDS,
                f"the request is for Python {python}, but {part} requires {own[part]}",
                f"{project.source}:requires-python",
                "choose another Python with `--python`, or change the specifier",
            )


def check_paths(project: Project, markers: Mapping[str, str]) -> None:
    """Check that the local paths exist that every installation in the environment needs.

    :raises InvalidFile: naming the first missing path
    """
    for missing in project.missing_paths:
        if missing.is_needed(markers):
            refuse(
                Reason.INCLUDE_MISSING,
                missing.message,
                missing.origin,
                "correct the path, or remove the requirement",
            )


def _named(
    project: Project, kind: str, known: Mapping[str, tuple[ProjectRequirement, ...]], name: str
) -> tuple[ProjectRequirement, ...]:
    requirements = known.get(name, known.get(canonicalize_name(name)))
    if requirements is None:
        raise InvalidFile(
            Reason.MISSING_FIELD,
            f"has no {kind} {value_text(name)}",
            place=project.source,
            field=f"{kind}s",
            hint=f"the project has {first_few(sorted(known), 20) or f'no {kind}s'}",
        )
    return requirements


#: Default limits of a search.
TIME_LIMIT_S = 10.0
MEMORY_LIMIT_BYTES = 2 * 1024**3


@dataclass(frozen=True, slots=True)
class RequestIndex:
    """An index that packages may come from.

    :param name: name on this machine and in the record; the URL if it is not configured
    :param called: name in the project and its lock
    :param url: without credentials
    :param explicit: whether only packages that name this index come from it
    :param known: whether it is configured on this machine
    :param owns: patterns of the package names that no other index may have
    """

    name: str = DEFAULT_INDEX
    called: str = DEFAULT_INDEX
    url: str = ""
    verify_ssl: bool = True
    explicit: bool = False
    known: bool = True
    owns: tuple[str, ...] = ()

    @property
    def remedy(self) -> str:
        """How to make this machine read an index that is not configured."""
        if has_variable(self.url):
            return "its URL has a variable, which is not expanded: select an index with `--index`"
        setting = shlex.quote(f" {name_of_index(self.url)}={self.url}")
        return (
            f'to read it, set `export PACKAGE_INDEXES="$PACKAGE_INDEXES"{setting}`, or allow all '
            "indexes of the project with `--index-from-project`; `--index` selects other indexes"
        )


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """Options of a request in addition to its project.

    :param count: number of stacks, best first
    :param dev: include development requirements
    :param exclusions: versions that must not be chosen; an empty specifier excludes all
    :param overrides: by name, the specifier that is used instead of every requirement on the
        package
    :param published_before: later releases are left out (a cooldown)
    :param allowed_vulnerabilities: identifiers of accepted vulnerabilities
    :param only_wheels: leave out versions that would have to be built
    :param build: build source distributions whose metadata cannot be read reliably without a build
    :param indexes: in search order
    :param debug: report the inputs of the search
    :param labels: stored and reported with the advice
    :param described: the client's description of its runtime environment, returned unchanged
    :param stack_info: notes of the client, shown before the notes of the report; text only
    :param justification: the same for every product
    :param time_s: time limit of a search in seconds
    :param memory_bytes: memory limit of a search; ``None`` for no limit
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
    only_wheels: bool = False
    build: bool = False
    indexes: tuple[RequestIndex, ...] = (RequestIndex(),)
    labels: Mapping[str, str] = field(default_factory=dict)
    described: Mapping[str, Any] | None = None
    stack_info: tuple[Mapping[str, str], ...] = ()
    justification: tuple[Mapping[str, str], ...] = ()
    time_s: float = TIME_LIMIT_S
    memory_bytes: int | None = MEMORY_LIMIT_BYTES

    def budget(self, threads: int = 1) -> Budget:
        """Limits of the search; only its duration depends on ``threads``."""
        return Budget(self.time_s, self.memory_bytes, threads)


@dataclass(frozen=True, slots=True)
class StackRequest:
    """A complete request. A request, a snapshot and evidence together determine the advice.

    :param hardware: digest of the hardware class that the stack will run on, if known
    :param hardware_name: its name for a person, such as ``AMD EPYC, 2 CPUs``
    :param hardware_note: message if nothing was measured on that class
    :param benchmark_files: by name of an own benchmark, the digest of the files that its command
        names; empty if the files of the project are not here
    """

    project: Project
    environment: Environment
    kind: RecommendationType
    options: RequestOptions = field(default_factory=RequestOptions)
    hardware: str | None = None
    hardware_note: str | None = None
    hardware_name: str | None = None
    benchmark_files: Mapping[str, str] = field(default_factory=dict)

    @property
    def requirements(self) -> tuple[ProjectRequirement, ...]:
        """The selected requirements after overrides, whether or not their markers hold.

        :raises InvalidFile: if the project has no such extra or group, or excludes the Python of
            the environment
        """
        project, options, markers = self.project, self.options, self.environment.markers
        groups = [f"--group {canonicalize_name(it)}" for it in options.groups]
        check_python(project, markers, ["--dev"] * options.dev + groups)
        requirements = selected_requirements(
            project, dev=options.dev, extras=options.extras, groups=options.groups
        )
        kept = (it for it in requirements if it.name not in project.removed)
        needed = overridden(kept, self._overrides, markers)
        return tuple(replace(it, index=it.index_in(markers)) for it in needed)

    @property
    def _overrides(self) -> tuple[ProjectRequirement, ...]:
        """Overrides of the project that the request does not replace."""
        return tuple(it for it in self.project.overrides if it.name not in self.options.overrides)

    @property
    def target(self) -> Target:
        """The hardware, Python and benchmarks that measurements are judged for."""
        files = self.benchmark_files
        own = tuple((name, it, files.get(name)) for name, it in self.project.benchmarks.items())
        return Target(self.hardware or None, self.environment.python_version, own)

    @property
    def roots(self) -> tuple[Dependency, ...]:
        """The requirements whose markers hold in the environment."""
        return roots_of((it.text for it in self.requirements), self.environment)

    @property
    def locked(self) -> Mapping[str, str] | None:
        """Locked versions by name; ``None`` without a lock.

        Development packages count only with ``options.dev``.
        """
        entries = self.project.locked_in(self.environment.markers)
        if entries is None:
            return None
        return {n: it.version for n, it in entries.items() if self.options.dev or not it.dev}

    def index_named(self, called: str) -> str:
        """The name that this machine has for an index in the project.

        A name that the project does not list is put in quotes, which no index has as its name.
        """
        names = (it.name for it in self.options.indexes if it.called == called)
        return next(names, value_text(called))

    def resolver_request(self, refused: Mapping[Purl, str]) -> ResolverRequest:
        """The rules for the resolver.

        :param refused: versions that the recommendation type excludes, with the reason as text
        """
        project, options = self.project, self.options
        markers = self.environment.markers
        held = [it for it in self.requirements if it.holds(markers)]
        bounds = [it for it in project.constraints if it.holds(markers)]
        overrides: dict[str, list[ProjectRequirement]] = {it.name: [] for it in self._overrides}
        for requirement in self._overrides:
            if requirement.holds(markers):
                overrides[requirement.name].append(requirement)
        prereleases = {it.name for it in (*held, *bounds) if it.prereleases}
        return ResolverRequest(
            roots=self.roots,
            direct=tuple(dict.fromkeys(it.name for it in held)),
            constraints=(*(it.dependency for it in bounds), *options.constraints),
            exclusions=(
                *options.exclusions,
                *(Dependency(it.name, gap) for it in held for gap in it.excluded),
            ),
            overrides={
                **{
                    name: ",".join(sorted({it.specifier for it in several} - {""}))
                    for name, several in overrides.items()
                    if several
                },
                **options.overrides,
            },
            removed=project.removed | {name for name, it in overrides.items() if not it},
            bare=frozenset(
                name for name, it in overrides.items() if it and not any(o.extras for o in it)
            ),
            prereleases=project.prereleases | options.prereleases | frozenset(prereleases),
            all_prereleases=project.all_prereleases or self.kind.admits_prereleases,
            published_before=options.published_before,
            published_after=options.published_after,
            indexes=tuple(dict.fromkeys(it.name for it in options.indexes if not it.explicit)),
            index_of={
                it.name: self.index_named(index)
                for it in (*(o for listed in overrides.values() for o in listed), *held)
                if (index := it.index_in(markers)) is not None
            },
            owners=tuple((pattern, it.name) for it in options.indexes for pattern in it.owns),
            refused=refused,
            inferred_bounds=True,
            only_wheels=options.only_wheels or ":all:" in project.wheels_of,
            wheels_of=project.wheels_of,
            builds_of=frozenset() if options.only_wheels else project.builds_of,
        )


_DAYS = re.compile(r"(\d{1,5})\s*d(?:ays?)?")


def parse_dependencies(texts: Iterable[str]) -> tuple[Dependency, ...]:
    """Parse requirements of the form name, extras, specifier.

    :raises InvalidArgument: if one has a marker or a URL, or is not a requirement
    """
    dependencies = []
    for text in texts:
        requirement = parse_requirement(text)
        if requirement.name is None or requirement.url or requirement.marker:
            problem = requirement.problem or "markers and URLs are not allowed"
            raise InvalidArgument(f"{text!r} is not a name with a specifier: {problem}")
        dependencies.append(Dependency(requirement.name, requirement.specifier, requirement.extras))
    return tuple(dependencies)


def parse_bounds(texts: Iterable[str]) -> tuple[Dependency, ...]:
    """Parse requirements that only restrict versions, and therefore have no extras.

    :raises InvalidArgument: like :func:`parse_dependencies`, or if one has extras
    """
    bounds = parse_dependencies(texts)
    for bound in bounds:
        if bound.extras:
            extras = ",".join(bound.extras)
            raise InvalidArgument(f"{bound.name}[{extras}] has extras: list them in the project")
    return bounds


def parse_overrides(texts: Iterable[str]) -> dict[str, str]:
    """Parse overrides, and join the overrides of each package into one specifier.

    :raises InvalidArgument: like :func:`parse_bounds`
    """
    specifiers: dict[str, set[str]] = {}
    for bound in parse_bounds(texts):
        specifiers.setdefault(bound.name, set()).add(bound.specifier)
    return {name: ",".join(sorted(parts - {""})) for name, parts in specifiers.items()}


def parse_moment(text: str | None, now: datetime) -> datetime | None:
    """Parse a date, a time, or a number of days before ``now``; a time without a zone is in UTC.

    :raises InvalidArgument: if the text has another form

    >>> parse_moment("7d", datetime(2024, 3, 8, tzinfo=UTC)).isoformat()
    '2024-03-01T00:00:00+00:00'
    """
    if text is None:
        return None
    if days := _DAYS.fullmatch(text.strip()):
        return now - timedelta(days=int(days[1]))
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidArgument(
            f"{text!r} is neither a date nor a number of days such as 7d"
        ) from None
