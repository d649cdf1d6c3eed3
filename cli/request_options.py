"""Options of an advice request, and the request made from them and a project."""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
from packaging.utils import canonicalize_name

from adviser.advice_request import (
    RequestOptions,
    StackRequest,
    check_paths,
    parse_bounds,
    parse_dependencies,
    parse_moment,
    parse_overrides,
)
from adviser.answering.index_selection import indexes_to_search, with_project_indexes
from adviser.projects.project import KINDS_OF_REFERENCES, Project, WarningCode
from adviser.scoring.criteria import RecommendationType
from cli.options import ExclusiveSwitch, NamedPath
from cli.project_files import read_project
from common.formats.file_decoding import refuse
from common.formats.locks.entries import LockSelection
from common.settings import Settings
from loop.watched_projects import benchmark_files
from model.errors import InvalidArgument, Reason
from model.packages.candidates import Dependency
from model.packages.environments import Environment, environment, host_environment
from model.text import first_few, printable

Command = TypeVar("Command", bound=Callable[..., Any])
Text = TypeVar("Text")
Value = TypeVar("Value")

_LABEL = re.compile(r"\s*([^=;]+?)\s*=\s*([^;]*?)\s*")


def project_path(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the argument ``PATH`` and its alias ``--project``, both as the parameter ``path``."""

    @click.argument("path", type=NamedPath(path_type=Path), required=False)
    @click.option("--project", type=NamedPath(path_type=Path), metavar="PATH",
                  help="Folder or file of the project, the same as the argument PATH.")  # fmt: skip
    @wraps(command)
    def with_path(
        *args: Any, path: Path | None = None, project: Path | None = None, **options: Any
    ) -> Any:
        if path is not None and project is not None:
            raise InvalidArgument("PATH and --project: give only one of them")
        return command(*args, path=path or project, **options)

    return with_path


def index_from_project(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--index-from-project``, which configures the project's indexes for this command."""

    @click.option(
        "--index-from-project",
        is_flag=True,
        help="Also read the indexes that the project names; Thoth prints them first.",
    )
    @wraps(command)
    def with_indexes(*args: Any, index_from_project: bool, **options: Any) -> Any:
        if index_from_project:
            context = click.get_current_context()
            project = read_project(options.get("path") or options.get("lock") or Path())
            context.obj, added = with_project_indexes(context.obj, project)
            for index in added:
                text = f"reads the project's index {index.name} at {index.url}"
                click.echo(printable(text), err=True)
        return command(*args, **options)

    return with_indexes


_ENVIRONMENT = (
    click.option("--python", metavar="VERSION",
                 help="Python version, such as 3.11.  [default: the project's or this host's]"),
    click.option("--platform", metavar="TAG",
                 help="Platform, such as manylinux_2_28_x86_64.  [default: this host's]"),
    click.option("--cuda", metavar="VERSION", help="Newest CUDA version that the driver supports."),
    click.option("--hardware", metavar="DIGEST_PREFIX",
                 help="Hardware class.  [default: this host's]"),
)  # fmt: skip
_LOCK = (
    click.option("--extra", "extras", multiple=True, metavar="NAME",
                 help="Include this extra; repeat the option for more."),
    click.option("--group", "groups", multiple=True, metavar="NAME",
                 help="Include this dependency group; repeat the option for more."),
    click.option("--package", "members", multiple=True, metavar="NAME",
                 help="Read a lock for this member of a workspace; repeat the option for more."),
    click.option("--all-packages", "all_members", is_flag=True,
                 help="Read a lock for all members of a workspace."),
    click.option("--no-default-groups", "default_groups", is_flag=True, flag_value=False,
                 default=True,
                 help="Leave out the groups of a lock that its tool installs by default."),
)  # fmt: skip
_REQUEST = (
    click.option("--type", "kind", type=click.Choice([it.value for it in RecommendationType]),
                 default="best", show_default=True, help="What the stack is optimised for."),
    click.option("--dev", is_flag=True, help="Include development requirements."),
    *_LOCK,
    *_ENVIRONMENT,
    click.option("--labels", metavar="K=V;K=V", default="",
                 help="Labels to store with the advice."),
    click.option("--constraint", "constraints", multiple=True, metavar="REQ",
                 help="Constraint on a package that the stack may contain, such as 'numpy<2'."),
    click.option("--exclude", "exclusions", multiple=True, metavar="REQ",
                 help="Never choose these versions; a name alone excludes all versions."),
    click.option("--override", "overrides", multiple=True, metavar="REQ",
                 help="Use REQ instead of every other requirement on that package."),
    click.option("--newer-than", metavar="WHEN",
                 help="Use only releases after this date, or of at most this age, such as 90d."),
    click.option("--older-than", metavar="WHEN",
                 help="Use only releases before this date, or of at least this age, such as 7d."),
    click.option("--pre", "prereleases", multiple=True, metavar="PKG",
                 help="Allow pre-releases of this package."),
    click.option("--allow-vulnerability", "allowed", multiple=True, metavar="ID",
                 help="Accept versions with this vulnerability, under any of its aliases; an ID"
                      " that no version has is ignored."),
    click.option("--only-wheels", is_flag=True,
                 help="Use only versions with a wheel; build none from a source distribution."),
    click.option("--build", is_flag=True,
                 help="Build source distributions in the sandbox if their metadata cannot be read"
                      " reliably without a build; implies --fetch."),
    click.option("--index", "indexes", multiple=True, metavar="NAME",
                 help="Use this configured index; repeat the option in order of priority."),
    click.option("--fetch/--offline", "fetch", cls=ExclusiveSwitch, default=None,
                 help="Read releases from the indexes, or use only what is stored.  [default: read"
                      " if the store lacks releases]"),
    click.option("--time-limit", type=click.FloatRange(0, min_open=True), default=10.0,
                 show_default=True, metavar="S", help="Time limit of each search, in seconds."),
    click.option("--memory-limit", type=click.IntRange(64), default=2048, show_default=True,
                 metavar="MIB", help="Memory limit of the search, in MiB."),
    click.option("--threads", type=click.IntRange(1), default=1, show_default=True,
                 help="Number of solver threads, which does not affect the result."),
)  # fmt: skip


def request_options(command: Command) -> Command:
    """Add the options of an advice request."""
    return _with(_REQUEST, command)


def environment_options(command: Command) -> Command:
    """Add the options that describe the environment of the stack."""
    return _with(_ENVIRONMENT, command)


def lock_environment_options(command: Command) -> Command:
    """Add :func:`lock_options`, ``--python`` and ``--platform``."""
    return _with((*_LOCK, *_ENVIRONMENT[:2]), command)


def lock_options(command: Command) -> Command:
    """Add the options that select a part of a lock; :func:`lock_selection` reads them."""
    return _with(_LOCK, command)


def lock_selection(options: Mapping[str, Any]) -> LockSelection:
    """The selected part of a lock.

    :param options: values of :func:`lock_options` by name
    """
    if options["members"] and options["all_members"]:
        raise InvalidArgument("--package and --all-packages: give only one of them")
    return LockSelection.of(**{it.name: options[it.name] for it in fields(LockSelection)})


def selection_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that repeat a selection, by their name on the command line."""
    return {
        "--extra": options["extras"], "--group": options["groups"],
        "--package": options["members"], "--all-packages": options["all_members"],
        "--no-default-groups": not options["default_groups"],
    }  # fmt: skip


def environment_text(options: Mapping[str, Any]) -> str:
    """`` --python 3.12 --platform win_amd64``: the given options, for suggested commands."""
    values = ((it, options[it]) for it in ("python", "platform", "cuda", "hardware"))
    return "".join(f" --{name} {shlex.quote(it)}" for name, it in values if it is not None)


def _with(options: Iterable[Callable[[Any], Any]], command: Command) -> Command:
    for option in reversed(tuple(options)):
        command = option(command)
    return command


def advice_request_of(
    settings: Settings,
    path: Path | None,
    options: Mapping[str, Any],
    *,
    count: int = 1,
    project: Project | None = None,
) -> StackRequest:
    """Make the advice request of a project; its hardware class is determined later.

    :param path: folder or file of the project; by default the current folder
    :param options: values of :func:`request_options` by name
    :param project: a project that was read before, instead of ``path``
    """
    if options["build"] and (options["only_wheels"] or options["fetch"] is False):
        other = "--only-wheels" if options["only_wheels"] else "--offline"
        raise InvalidArgument(f"--build and {other}: give only one of them")
    project = project or read_project(path or Path(), lock_selection(options))
    now = datetime.now(UTC)
    parsed = RequestOptions(
        count=count,
        dev=options["dev"],
        extras=tuple(options["extras"]),
        groups=tuple(options["groups"]),
        constraints=option_value(parse_bounds, options["constraints"], "--constraint"),
        exclusions=option_value(parse_bounds, options["exclusions"], "--exclude"),
        overrides=option_value(parse_overrides, options["overrides"], "--override"),
        prereleases=frozenset(map(canonicalize_name, options["prereleases"])),
        published_before=moment(options["older_than"], now, "--older-than")
        or project.published_before,
        published_after=moment(options["newer_than"], now, "--newer-than"),
        allowed_vulnerabilities=frozenset(options["allowed"]),
        only_wheels=options["only_wheels"],
        build=options["build"],
        indexes=indexes_to_search(settings, project, options["indexes"]),
        labels=labels(options["labels"]),
        time_s=options["time_limit"],
        memory_bytes=options["memory_limit"] * 2**20,
    )
    target = requested_environment(project, options)
    check_paths(project, target.markers)
    for missing in project.missing_paths:
        click.echo(printable(f"warning: {missing.origin}: {missing.message}"), err=True)
    files = benchmark_files(path or Path(), project.benchmarks)
    request = StackRequest(
        project, target, RecommendationType(options["kind"]), parsed, benchmark_files=files
    )
    # Checked before a store is opened.
    if not request.roots:
        _refuse_without_requirements(request)
    return request


def _refuse_without_requirements(request: StackRequest) -> NoReturn:
    """Say why a project requires nothing that an index could have.

    :raises InvalidFile: always
    """
    project, target = request.project, request.environment
    where = f"Python {target.python_version}, {target.platform}"
    message = f"the project has no requirements on {where}"
    hint = "check the file; `--dev`, `--extra` and `--group` include more of its requirements"
    kinds = KINDS_OF_REFERENCES
    outside = [f"{it.field} is {kinds[it.code]}" for it in project.warnings if it.code in kinds]
    dynamic = [it.message for it in project.warnings if it.code is WarningCode.DYNAMIC]
    if request.requirements:
        message = (
            f"no requirement of the project applies to {where}: the markers of all"
            f" {len(request.requirements)} are false there"
        )
        hint = "choose another environment with `--python` and `--platform`, or check the markers"
    elif outside:
        message = (
            "no requirement of the project comes from a package index, so there is nothing to"
            f" choose; left out: {first_few(outside, 5)}"
        )
        hint = (
            "require a release instead, such as `flask>=3`, or list the requirements of the"
            " packages that are left out"
        )
    elif dynamic:
        message = f"{message}: {first_few(dynamic, 2)}"
    refuse(Reason.MISSING_FIELD, message, f"{project.source}:$", hint)


def requested_environment(project: Project | None, options: Mapping[str, Any]) -> Environment:
    """Return the requested environment; by default the project's Python on this host's platform.

    If the project names the same minor version as this host's Python, the host's patch version is
    used.
    """
    python = options["python"]
    if python is None and project is not None and project.python is not None:
        try:
            chosen = environment(project.python, options["platform"], options.get("cuda"))
        except InvalidArgument:
            pass  # a project may give an incomplete version, such as "3"
        else:
            host, is_minor = host_environment(), project.python.count(".") == 1
            if options["platform"] is None and is_minor and chosen.line == host.line:
                chosen = replace(chosen, python_full_version=host.python_full_version)
            return chosen
    return environment(python, options["platform"], options.get("cuda"))


def dependencies(texts: Iterable[str], option: str) -> tuple[Dependency, ...]:
    """Parse requirements, which must have neither markers nor URLs."""
    return option_value(parse_dependencies, texts, option)


def moment(text: str | None, now: datetime, option: str) -> datetime | None:
    """Parse a date, a time, or a number of days before ``now``."""
    return option_value(lambda value: parse_moment(value, now), text, option)


def option_value(parse: Callable[[Text], Value], text: Text, option: str) -> Value:
    """Parse the value of an option.

    :raises InvalidArgument: naming the option
    """
    try:
        return parse(text)
    except InvalidArgument as error:
        raise InvalidArgument(f"{option}: {error}") from None


def labels(text: str) -> dict[str, str]:
    """Parse ``k=v;k2=a,b``.

    >>> labels("team = blue;tier=a,b")
    {'team': 'blue', 'tier': 'a,b'}
    """
    parsed = {}
    for part in filter(str.strip, text.split(";")):
        pair = _LABEL.fullmatch(part)
        if pair is None:
            raise InvalidArgument(f"--labels: {part!r} is not K=V")
        parsed[pair[1]] = pair[2]
    return parsed
