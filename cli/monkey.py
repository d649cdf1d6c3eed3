"""``thoth monkey``: generate stacks to measure, write their specifications, submit them."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from packaging.utils import canonicalize_name

from adviser.advice_request import StackRequest
from adviser.answering.answers import on_hardware
from adviser.answering.stack_generation import (
    StackKnowledge,
    files_of_stack,
    read_varied,
    recorded_ranking,
    stack_knowledge,
)
from adviser.monkey.documents import (
    NotInstallable,
    StackMeasurement,
    WrittenStack,
    lock_of,
    monkey_document,
    space_document,
    specification_name,
    specification_of,
)
from adviser.monkey.job_value import WORTHWHILE
from adviser.monkey.strategies import (
    GeneratedStack,
    GenerationOptions,
    JobRanking,
    NoStacks,
    SpaceReport,
    StackGenerator,
    Strategy,
    unmeasured_values,
)
from adviser.resolver.resolver_request import OutOfTime, SearchClock
from adviser.resolver.universe import Universe
from adviser.resolver.worker import ResolverWorker
from cli.console import print_json, print_note
from cli.inspect import inspect
from cli.knowledge import knowledge_for
from cli.options import NamedPath, as_json_option, key_and_value
from cli.project_files import read_lock_file, write_file
from cli.request_options import advice_request_of, lock_selection, project_path, request_options
from common.settings import Settings
from graph.engine import Stores
from graph.migrate import migrated_stores
from model.errors import InvalidArgument, NotRead
from model.json_documents import digest
from model.text import counted, first_few
from pis.catalogue import InvalidParameters, arguments_of, indicator_of

_REPORT = "monkey.json"
_QUEUE = "queue"
#: Jobs that a stack needs before anything is claimed about it.
_JOBS_PER_STACK = 5
_SHOWN = 10


@click.command()
@project_path
@request_options
@click.option("--strategy", type=click.Choice([it.value for it in Strategy]),
              default="random", show_default=True, help="How stacks are chosen.")  # fmt: skip
@click.option("--pi", "indicators", multiple=True, metavar="NAME",
              help="Performance indicator to measure; repeat the option for more.")  # fmt: skip
@click.option("-p", "--parameter", "parameters", multiple=True, metavar="NAME=VALUE",
              help="A parameter of the indicators; repeat the option for more.")  # fmt: skip
@click.option("--stacks", type=click.IntRange(1), metavar="N",
              help="Largest number of stacks.  [default: 10; all, coverage: no limit]")  # fmt: skip
@click.option("--jobs", type=click.IntRange(1), metavar="N",
              help="Largest number of jobs of all stacks together.")  # fmt: skip
@click.option("--hours", type=click.FloatRange(0, min_open=True), metavar="H",
              help="Largest duration of all jobs together, in hours.")  # fmt: skip
@click.option("--jobs-per-stack", type=click.IntRange(1, 10_000), default=_JOBS_PER_STACK,
              show_default=True, metavar="N", help="Jobs of each stack.")  # fmt: skip
@click.option("--job-minutes", type=click.FloatRange(0, min_open=True), default=1.0,
              show_default=True, metavar="M", help="Expected duration of a job.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True,
              help="Seed of random choices; the same seed gives the same stacks.")  # fmt: skip
@click.option("--strength", type=click.IntRange(1, 6), default=2, show_default=True, metavar="T",
              help="For coverage: number of packages in a combination.")  # fmt: skip
@click.option("--threshold", type=click.FloatRange(0), default=WORTHWHILE, metavar="VALUE",
              help="For informative: least difference, in per cent, that an hour of jobs is"
              " expected to settle.  [default: 0.005]")  # fmt: skip
@click.option("--only-packages", "varied", multiple=True, metavar="PKG",
              help="Vary only this package; repeat the option for more.")  # fmt: skip
@click.option("--base", type=NamedPath(path_type=Path, exists=True, dir_okay=False),
              metavar="LOCK", help="Keep the versions of this lock, except those of"
              " --only-packages, or else of direct requirements.")  # fmt: skip
@click.option("--image", metavar="IMAGE",
              help="Base image of the specifications, for containers and Kubernetes.")  # fmt: skip
@click.option("--count", is_flag=True, help="Only print how many valid stacks there are.")
@click.option("--dry-run", is_flag=True, help="Show the stacks, but write and submit nothing.")
@click.option("--out", type=NamedPath(path_type=Path, file_okay=False), metavar="DIR",
              help="Folder for the specifications and the report.")  # fmt: skip
@click.option("--submit", type=click.Choice([_QUEUE, "local", "ray", "container", "kubernetes"]),
              help="Measure the stacks: by the service's workers (queue), or now by a launcher"
              " of `thoth inspect`.")  # fmt: skip
@as_json_option
@click.pass_context
def monkey(context: click.Context, /, path: Path | None, as_json: bool, **options: Any) -> None:
    """Generate valid stacks to measure (Dependency Monkey).

    PATH is the project's folder or a file in it; by default, it is the current folder. A stack is
    valid if it meets all requirements, as in `thoth advise`, and has no superfluous package. Only
    versions whose metadata was read can occur.

    With --out, each stack is written as specifications for `thoth inspect`, with a report in
    monkey.json. Run the command again with the same options and folder to continue: nothing is
    written or submitted twice.

    Exit code 1 if no stack is valid, or a stack cannot be written as a specification; 3 if no
    stack is valid and something required was not read.
    """
    settings: Settings = context.obj
    _check(options)
    with ResolverWorker() as worker:
        request = advice_request_of(settings, path, options)
        with migrated_stores(settings) as stores:
            request = on_hardware(stores, request, options["hardware"])
            known = known_stacks(stores, request, options, worker.resolve)
            try:
                generator = _generator(stores, known, request, options)
                if options["count"]:
                    size = generator.size()
                    _print_size(size, known.unread, as_json=as_json)
                    unread = known.snapshot.unread_texts(it.name for it in known.snapshot.roots)
                    context.exit(0 if size.valid.high else 3 if unread else 1)
                run = MonkeyRun(stores, request, known, generator, options)
                document = run.generate()
            except NoStacks as error:
                if known.snapshot.unread_texts(error.names):
                    raise NotRead(str(error)) from error
                raise
    problems = [it for it in run.written if it.problem is not None]
    if as_json:
        print_json(document)
    else:
        _print_run(run, document)
    if options["submit"] not in (None, _QUEUE) and run.paths:
        paths = tuple(map(str, run.paths))
        context.invoke(inspect, specifications=paths, launcher=options["submit"], ingest=True)
    context.exit(1 if problems else 0)


def _check(options: Mapping[str, Any]) -> None:
    """:raises InvalidArgument: naming the option"""
    if options["count"]:
        return
    if options["out"] is None and not options["dry_run"]:
        raise InvalidArgument("--out: name the folder for the specifications, or add --dry-run")
    if not options["indicators"] and not options["dry_run"]:
        raise InvalidArgument("--pi: name an indicator to measure; `thoth pi list` lists them")
    submit = options["submit"]
    if submit in ("container", "kubernetes") and options["image"] is None:
        raise InvalidArgument(f"--image: --submit {submit} needs the image to start from")
    if submit is not None and options["dry_run"]:
        raise InvalidArgument("--submit and --dry-run: give only one of them")
    values = dict(key_and_value(text, "-p") for text in options["parameters"])
    for name in options["indicators"]:
        indicator_of(name)
        try:
            arguments_of(name, values)
        except InvalidParameters as error:
            raise InvalidArgument(f"--parameter: {error}") from None


def known_stacks(
    stores: Stores, request: StackRequest, options: Mapping[str, Any], resolver: Any
) -> StackKnowledge:
    """Releases to generate stacks from: stored ones, or listed ones if releases are missing.

    :param options: of a request, and ``varied``, the packages that vary
    """
    varied = _names(options["varied"])
    known = knowledge_for(stores, request, options, resolver)
    snapshot, evidence = known.use(
        lambda it: read_varied(it, request, varied), lambda: known.stored
    )
    return stack_knowledge(request, snapshot, evidence)


def _names(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(canonicalize_name, texts)))


def _generator(
    stores: Stores, known: StackKnowledge, request: StackRequest, options: Mapping[str, Any]
) -> StackGenerator:
    """:raises InvalidArgument: if a package to vary is unknown, or the lock has no versions"""
    varied, base = _names(options["varied"]), None
    for name in varied:
        if known.universe.packages.get(name):
            continue
        if unread := known.snapshot.unread_texts([name]):
            raise NotRead(f"--only-packages: {first_few(unread, 3)}")
        raise InvalidArgument(f"--only-packages: {name} cannot be in a stack of this project")
    if options["base"] is not None:
        lock = read_lock_file(options["base"], lock_selection(options), request.environment.markers)
        base = {n: it.version for n, it in lock.packages(request.environment.markers).items()}
        for warning in lock.warnings:
            print_note(warning.text)
        _note_unusable(base, known.universe, set(varied or known.universe.direct))
    strategy = Strategy(options["strategy"])
    ranking: JobRanking = unmeasured_values
    if strategy is Strategy.INFORMATIVE and not options["count"]:
        indicators = [indicator_of(it).title for it in options["indicators"]]
        ranking = recorded_ranking(
            stores, request, known, indicators,
            usual_minutes=options["job_minutes"], threshold=options["threshold"],
        )  # fmt: skip
    made = GenerationOptions(
        strategy, _most_stacks(strategy.value, options), options["seed"], varied, base,
        options["strength"], ranking=ranking,
    )  # fmt: skip
    try:
        return StackGenerator(known.universe, made, SearchClock(request.options.budget()))
    except OutOfTime:
        raise InvalidArgument(
            "--time-limit: the time ended before all stacks were counted"
        ) from None


def _note_unusable(base: Mapping[str, str], universe: Universe, varied: Collection[str]) -> None:
    """Tell which pins of a lock no stack can keep."""
    if not base.keys() & universe.packages.keys():
        print_note("--base: the lock has no package of this project")
    for name, version in sorted(base.items()):
        candidates = () if name in varied else universe.packages.get(name, ())
        if candidates and all(it.version != version for it in candidates):
            print_note(
                f"--base: {name} {version} does not meet the request, or its metadata was not read;"
                f" so no stack contains {name}"
            )


def _most_stacks(strategy: str, options: Mapping[str, Any]) -> int | None:
    """The number of stacks that the budget permits; ``None`` for no limit."""
    limits: list[int] = []
    per_stack = options["jobs_per_stack"] * max(1, len(options["indicators"]))
    if options["stacks"] is not None:
        limits.append(options["stacks"])
    if options["jobs"] is not None:
        limits.append(options["jobs"] // per_stack)
    if options["hours"] is not None:
        limits.append(int(options["hours"] * 60 / options["job_minutes"] / per_stack))
    if not limits and strategy not in ("all", "coverage"):
        limits.append(10)
    if limits and min(limits) < 1:
        raise InvalidArgument(
            f"--jobs and --hours: a stack needs {counted(per_stack, 'job')}: allow at least as many"
        )
    return min(limits, default=None)


class MonkeyRun:
    """Generates stacks and writes them into a folder, where an earlier run may have begun."""

    def __init__(
        self,
        stores: Stores,
        request: StackRequest,
        known: StackKnowledge,
        generator: StackGenerator,
        options: Mapping[str, Any],
    ) -> None:
        self._stores = stores
        self._request = request
        self._known = known
        self._generator = generator
        self._options = options
        self._folder: Path | None = None if options["dry_run"] else options["out"]
        self._earlier = self._read_earlier()
        self.written: list[WrittenStack] = []
        #: Number of specifications that an earlier run had written.
        self.kept = 0

    def _read_earlier(self) -> dict[str, Any]:
        path = None if self._folder is None else self._folder / _REPORT
        if path is None or not path.is_file():
            return {}
        try:
            earlier = json.loads(path.read_bytes())
        except ValueError:
            raise InvalidArgument(f"--out: {path} is not a report of `thoth monkey`") from None
        if not isinstance(earlier, dict) or earlier.get("parameters") != self.parameters:
            raise InvalidArgument(
                f"--out: {path} belongs to a run with other options: name another folder"
            )
        return earlier

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters that decide which stacks are generated."""
        generation = self._generator.options
        environment = self._request.environment
        return {
            "project": self._request.project.source,
            "requirements": [it.text for it in self._request.requirements],
            "python": environment.python_version,
            "platform": environment.platform,
            "hardware": self._request.hardware,
            "strategy": generation.strategy.value,
            "seed": generation.seed,
            "strength": generation.strength,
            "threshold": self._options["threshold"],
            "only_packages": list(generation.varied),
            "base": None if generation.base is None else dict(sorted(generation.base.items())),
            "indicators": list(self._options["indicators"]),
            "parameters": dict(key_and_value(it, "-p") for it in self._options["parameters"]),
            "jobs_per_stack": self._options["jobs_per_stack"],
        }

    def generate(self) -> dict[str, Any]:
        """Generate, write and submit; returns the report."""
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
        size = self._generator.size()
        for generated in self._generator.stacks():
            self.written.append(self._write(generated))
        impossible = list(self._generator.impossible())
        document = monkey_document(
            self.parameters, size, self.written, self._generator.infeasible, impossible,
            self._generator.sampling, dict(self._known.unread),
        )  # fmt: skip
        if self._folder is not None:
            text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
            write_file(self._folder / _REPORT, text.encode())
        return document

    def _write(self, generated: GeneratedStack) -> WrittenStack:
        try:
            specifications = self._specifications(generated)
        except NotInstallable as error:
            return WrittenStack(generated, {}, {}, str(error))
        if self._folder is None:
            return WrittenStack(generated, {}, {})
        names, inspections = {}, {}
        for indicator, specification in specifications.items():
            name = specification_name(specification)
            self._keep(name, specification)
            names[indicator] = name
            if self._options["submit"] == _QUEUE:
                inspections[name] = self._submit(name, specification)
        return WrittenStack(generated, names, inspections)

    def _specifications(self, generated: GeneratedStack) -> dict[str, dict[str, Any]]:
        """The specifications of a stack by indicator."""
        universe, files = self._known.universe, files_of_stack(self._stores, generated)
        lock = lock_of(generated, universe, files, self._request.environment)
        indexes = dict(self._stores.settings.package_indexes)
        specifications = {}
        for indicator in self._options["indicators"]:
            measurement = StackMeasurement(
                indicator, self.parameters["parameters"], self._options["jobs_per_stack"],
                self._options["image"],
            )  # fmt: skip
            specifications[indicator] = specification_of(
                lock, universe.direct, measurement, indexes
            )
        return specifications

    def _keep(self, name: str, specification: Mapping[str, Any]) -> None:
        """Write a specification, unless an earlier run did."""
        path = (self._folder or Path()) / name
        if path.exists():
            self.kept += 1
            return
        text = json.dumps(specification, indent=2, ensure_ascii=False) + "\n"
        write_file(path, text.encode())

    def _submit(self, name: str, specification: Mapping[str, Any]) -> str:
        """Enqueue an inspection, unless an earlier run into the same folder did."""
        from api.jobs.ingestion import enqueue_inspection  # loads the HTTP service
        from api.jobs.queue import Queue

        queue = Queue(self._stores.engine, self._stores.settings.queue_limit)
        submission = digest(["monkey", str((self._folder or Path()).absolute()), name])
        identifier, _ = enqueue_inspection(self._stores, queue, specification, submission)
        return identifier

    @property
    def paths(self) -> list[Path]:
        """The written specifications."""
        folder = self._folder or Path()
        return [folder / name for it in self.written for name in it.specifications.values()]


def _print_size(size: SpaceReport, unread: Mapping[str, int], *, as_json: bool) -> None:
    if as_json:
        print_json(space_document(size) | {"unread_versions": dict(sorted(unread.items()))})
        return
    for line in _size_lines(size):
        click.echo(line)
    _print_unread(unread)


def _print_unread(unread: Mapping[str, int]) -> None:
    if number := sum(unread.values()):
        print_note(f"left out: the metadata of {counted(number, 'version')} was not read")


def _size_lines(size: SpaceReport) -> Sequence[str]:
    valid = size.valid
    number = _rounded(valid.estimate)
    if not valid.exact:
        number = f"about {number} (95 % interval {_rounded(valid.low)} to {_rounded(valid.high)})"
    return (
        f"direct requirements: {_rounded(size.direct_product)} combinations of versions",
        f"all packages: {_rounded(size.raw_product)} combinations of {size.versions:,} versions of"
        f" {counted(size.packages, 'package')}",
        f"valid stacks: {number}",
    )


def _rounded(number: int) -> str:
    """A number in full, or with three digits if it is large.

    >>> _rounded(1652), _rounded(25 * 10**49)
    ('1,652', '2.50e+50')
    """
    return f"{number:,}" if number < 10**12 else f"{number:.2e}"


def _print_run(run: MonkeyRun, document: Mapping[str, Any]) -> None:
    for place, written in enumerate(run.written):
        if place == _SHOWN:
            click.echo(f"… and {len(run.written) - _SHOWN} more, in {_REPORT} or with --json")
            break
        pins = ", ".join(f"{name} {version}" for name, version in written.generated.pins.items())
        click.echo(f"{pins}\n    {written.generated.reason}")
    click.echo(counted(len(run.written), "stack") + f": {document['sampling']}")
    if run.kept:
        click.echo(f"{counted(run.kept, 'specification')} kept from an earlier run", err=True)
    problems = Counter(it.problem for it in run.written if it.problem)
    for problem, number in problems.items():
        print_note(f"{counted(number, 'stack')} not written: {problem}")
    submitted = sum(len(it.inspections) for it in run.written)
    if submitted:
        click.echo(f"{counted(submitted, 'inspection')} submitted; see {_REPORT}")
    infeasible = len(document["infeasible"])
    if infeasible:
        click.echo(f"{counted(infeasible, 'combination')} of versions cannot occur; see the report")
    _print_unread(document["unread_versions"])
