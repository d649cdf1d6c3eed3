"""The options that say what is asked, shared by the commands that answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from common.errors import InvalidArgument
from common.settings import Settings

if TYPE_CHECKING:
    from adviser.projects.project import Project
    from adviser.stack_request import StackRequest
    from common.environments import Environment
    from graph.candidates import Dependency
import sys
from collections.abc import Sequence
from contextlib import ExitStack, redirect_stdout
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adviser.stack_request import StackRequest
    from graph.candidates import Dependency
    from graph.engine import Stores


class NamedPath(click.Path):
    """A path on the command line; refuses the empty text, which would be the current directory."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("an empty path; `.` names the current directory", param, ctx)
        return super().convert(value, param, ctx)


Command = TypeVar("Command", bound=Callable[..., Any])
Text = TypeVar("Text")
Value = TypeVar("Value")

#: The values of ``adviser.scoring.criteria.RecommendationType``, which is slow to import.
TYPES = ("latest", "stable", "testing", "performance", "security")

_LABEL = re.compile(r"\s*([^=;]+?)\s*=\s*([^;]*?)\s*")

_ENVIRONMENT = (
    click.option("--python", metavar="VERSION", help="Such as 3.11; the project's, or this one."),
    click.option("--platform", metavar="TAG", help="Such as manylinux_2_28_x86_64; this host's."),
    click.option("--cuda", metavar="VERSION", help="The newest CUDA that the driver runs."),
    click.option(
        "--hardware", metavar="DIGEST_PREFIX", help="The hardware class; this host's by default."
    ),
)
_REQUEST = (
    click.option(
        "--type", "kind", type=click.Choice(TYPES), default="latest", show_default=True,
        help="What is wanted of a stack.",
    ),
    click.option("--dev", is_flag=True, help="With what development needs."),
    click.option("--extra", "extras", multiple=True, metavar="NAME", help="With this extra."),
    click.option("--group", "groups", multiple=True, metavar="NAME", help="With this group."),
    *_ENVIRONMENT,
    click.option("--labels", metavar="K=V;K=V", default="", help="Kept with the advice."),
    click.option(
        "--constraint", "constraints", multiple=True, metavar="REQ",
        help="A bound for a package if it is installed, such as 'numpy<2'.",
    ),
    click.option(
        "--exclude", "exclusions", multiple=True, metavar="REQ",
        help="Versions that are not to be chosen; a name alone means all.",
    ),
    click.option(
        "--override", "overrides", multiple=True, metavar="REQ",
        help="Replaces whatever anybody asks of the package.",
    ),
    click.option(
        "--newer-than", metavar="WHEN", help="Only releases since a date, or of the last 90d."
    ),
    click.option(
        "--older-than", metavar="WHEN", help="Only releases before a date, or at least 7d old."
    ),
    click.option(
        "--pre", "prereleases", multiple=True, metavar="PKG",
        help="Take pre-releases of it like any other.",
    ),
    click.option(
        "--allow-vulnerability", "allowed", multiple=True, metavar="ID", help="Accept this one."
    ),
    click.option(
        "--index", "indexes", multiple=True, metavar="NAME",
        help="Configured indexes to take packages from, in this order.",
    ),
    click.option(
        "--fetch", is_flag=True,
        help="First read what is not known from the indexes, as `thoth packages add` does.",
    ),
    click.option(
        "--time-limit", type=click.FloatRange(0, min_open=True), default=10.0, show_default=True,
        metavar="S", help="Seconds that the search may take.",
    ),
    click.option(
        "--memory-limit", type=click.IntRange(64), default=2048, show_default=True,
        metavar="MIB", help="Memory that the search may take.",
    ),
    click.option(
        "--threads", type=click.IntRange(1), default=1, show_default=True,
        help="Of the solver; the answer does not depend on them.",
    ),
)  # fmt: skip


def request_options(command: Command) -> Command:
    """Add every option that says what is asked."""
    return _with(_REQUEST, command)


def environment_options(command: Command) -> Command:
    """Add those that say where it is to run."""
    return _with(_ENVIRONMENT, command)


def _with(options: Iterable[Callable[[Any], Any]], command: Command) -> Command:
    for option in reversed(tuple(options)):
        command = option(command)
    return command


def asked_of(
    settings: Settings, path: Path, given: Mapping[str, Any], *, count: int = 1
) -> StackRequest:
    """The request that a project and options make; the hardware class is found out later.

    :param given: the values of :func:`request_options` by name
    """
    from packaging.utils import canonicalize_name

    from adviser.answering.index_selection import asked_indexes
    from adviser.request_values import parse_bounds, parse_overrides
    from adviser.scoring.criteria import RecommendationType
    from adviser.stack_request import RequestOptions, StackRequest
    from cli.project_files import read_project
    from common.formats.file_fields import refuse
    from common.reasons import Reason

    project, now = read_project(path), datetime.now(UTC)
    options = RequestOptions(
        count=count,
        dev=given["dev"],
        extras=tuple(given["extras"]),
        groups=tuple(given["groups"]),
        constraints=option_value(parse_bounds, given["constraints"], "--constraint"),
        exclusions=option_value(parse_bounds, given["exclusions"], "--exclude"),
        overrides=option_value(parse_overrides, given["overrides"], "--override"),
        prereleases=frozenset(map(canonicalize_name, given["prereleases"])),
        published_before=moment(given["older_than"], now, "--older-than")
        or project.published_before,
        published_after=moment(given["newer_than"], now, "--newer-than"),
        allowed_vulnerabilities=frozenset(given["allowed"]),
        indexes=asked_indexes(settings, project, given["indexes"]),
        labels=labels(given["labels"]),
        time_s=given["time_limit"],
        memory_bytes=given["memory_limit"] * 2**20,
    )
    where = asked_environment(project, given)
    asked = StackRequest(project, where, RecommendationType(given["kind"]), options)
    # What is no requirement, extra or group needs no store to say so.
    if not asked.roots:
        refuse(
            Reason.MISSING_FIELD,
            f"nothing is asked for on Python {where.python_version}, {where.platform}",
            f"{project.source}:$",
            "check the file; `--dev`, `--extra` and `--group` ask for more, where a project has it",
        )
    return asked


def asked_environment(project: Project | None, given: Mapping[str, Any]) -> Environment:
    """That of the options; the project's Python, this host's platform where they say nothing.

    A project that names the minor version of this host's Python means this very one, unless it is
    to run on another platform.
    """
    from common.environments import environment, host_environment

    python = given["python"]
    if python is None and project is not None and project.python is not None:
        try:
            found = environment(project.python, given["platform"], given["cuda"])
        except InvalidArgument:
            pass  # a project's own word, such as "3", may be less than a version
        else:
            host, is_minor = host_environment(), project.python.count(".") == 1
            if given["platform"] is None and is_minor and found.line == host.line:
                found = replace(found, python_full_version=host.python_full_version)
            return found
    return environment(python, given["platform"], given["cuda"])


def dependencies(texts: Iterable[str], option: str) -> tuple[Dependency, ...]:
    """Requirements without markers and URLs."""
    from adviser.request_values import parse_dependencies

    return option_value(parse_dependencies, texts, option)


def moment(text: str | None, now: datetime, option: str) -> datetime | None:
    """A date, a time, or a number of days before ``now``."""
    from adviser.request_values import parse_moment

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
    """``k=v;k2=a,b`` as a dictionary.

    >>> labels("team = blue;tier=a,b")
    {'team': 'blue', 'tier': 'a,b'}
    """
    found = {}
    for part in filter(str.strip, text.split(";")):
        pair = _LABEL.fullmatch(part)
        if pair is None:
            raise InvalidArgument(f"--labels: {part!r} is not K=V")
        found[pair[1]] = pair[2]
    return found


def fetch(stores: Stores, asked: StackRequest, more: Iterable[Dependency] = ()) -> None:
    """Read the missing packages of a request; everything is reported on standard error.

    :param more: packages to look at besides those of the request
    """
    from adviser.answering.missing_packages import fetch_missing
    from cli.packages import progress_bars
    from cli.packages_view import print_crawls
    from ingest.crawl.crawl_request import CrawlBounds
    from ingest.crawl.runs import add_packages, roots_of

    def add(index: str, requirements: Sequence[str], prereleases: bool) -> bool:
        with redirect_stdout(sys.stderr), ExitStack() as stack:
            report = add_packages(
                stores.settings,
                roots_of(requirements),
                CrawlBounds(prereleases=prereleases),
                index=index,
                watching=False,
                on_progress=progress_bars(stack, quiet=False),
            )
            stack.close()  # the bars end before the report begins
            print_crawls(report)
        return not report.unanswered

    for name, why in fetch_missing(stores, asked, add, _tell, more).items():
        _tell(f"still missing: {name}: {why}")


def _tell(line: str) -> None:
    from common.terminal import printable

    click.echo(printable(line), err=True)
