"""``--measure`` of ``thoth advise`` and ``thoth fix``: measurements within a budget of time.

For an advice, the strategy ``informative`` of Dependency Monkey chooses the stacks; for a fix, they
are the lock and its fixes. Results are ingested round by round, and each round chooses again.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click

from adviser.advice_request import StackRequest
from adviser.answering.answers import on_hardware
from adviser.answering.lock_fixes import LockFixes
from adviser.answering.stack_generation import files_of_stack, recorded_ranking
from adviser.bisect.search import SearchStopped
from adviser.fix import UNSETTLED
from adviser.monkey.documents import NotInstallable, lock_of, python_part
from adviser.monkey.job_value import WORTHWHILE
from adviser.monkey.strategies import GeneratedStack, GenerationOptions, StackGenerator, Strategy
from adviser.resolver.resolver_request import SearchClock
from adviser.resolver.results import Choice, ResolvedStack
from adviser.resolver.universe import Universe
from adviser.scoring.samples import MIN_JOBS
from cli.inspect import ingest_folders, inspection_observer
from cli.measuring import SearchFolder, StackFailed, StackRuns, local_launcher
from cli.measuring_options import machine_of_this_command
from cli.monkey import known_stacks
from cli.own_benchmarks import chosen_benchmarks
from common.settings import Settings
from graph.engine import Stores
from graph.migrate import migrated_stores
from loop.stacks import indicator_named
from model.errors import InvalidArgument
from model.json_documents import digest
from model.measurements.evidence import COMMAND
from model.packages.environments import host_environment
from model.packages.identity import same_version
from model.text import counted, duration_text, first_few, printable
from pis.amun.inspection_folder import InspectionOutcome, read_job
from pis.amun.job_output import duration_s, error_lines, readings_of
from pis.amun.schema import InvalidSpecification
from pis.catalogue import indicator_of
from pis.command_specifications import COMMAND_TIMEOUT_S, Command, command_of

_STATE = "measure.json"
#: Jobs of each stack in a round; fewer only if the budget has no room for more.
_JOBS = 2 * MIN_JOBS
#: Maximum number of stacks of a round beside the reference; the next round chooses again.
_MOST_STACKS = 8
#: Share of the time that jobs use; new environments need the rest.
_USABLE = 0.8


@dataclass(frozen=True, slots=True)
class _Benchmark:
    """The measurement on each stack: a command of the project, or a bundled indicator.

    :param title: in the documents
    """

    name: str
    title: str
    command: Command | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)

    def specification(self, python: Mapping[str, Any]) -> dict[str, Any]:
        """:param python: the part ``python`` of a specification"""
        if self.command is None:
            parameters = {"parameters": dict(self.parameters)} if self.parameters else {}
            return {"script": self.name, **parameters, "python": dict(python)}
        return {
            **self.command.specification(python, {}, COMMAND_TIMEOUT_S),
            "identifier": self.name,
        }


def measure_for_advice(
    settings: Settings,
    request: StackRequest,
    path: Path,
    budget_s: float,
    resolver: Any,
    options: Mapping[str, Any],
    find: Callable[[], LockFixes] | None = None,
) -> None:
    """Measure what could change the advice for a project, and ingest the results.

    An interrupted measurement continues with the rest of its budget.

    :param path: of the project
    :param options: of ``thoth advise`` or ``thoth fix``
    :param find: finds the fixes of its lock by present knowledge; these are measured against the
        lock, until no verdict is open
    :raises StackFailed: if nothing can be measured on the reference stack, or the record refuses
        the results
    """
    target, here = request.environment, host_environment()
    if target.platform != here.platform or options["hardware"] is not None:
        raise InvalidArgument("--measure: the advice must be for this machine")
    folder = path if path.is_dir() else path.parent
    own = chosen_benchmarks(settings, folder, (), confirmed=options["confirmed"])
    benchmarks = [
        _Benchmark(name, COMMAND, command_of([text], folder.absolute()))
        for name, text in own.items()
    ] or [
        _Benchmark(it.name, indicator_of(it.name).title, parameters=it.parameters)
        for it in map(indicator_named, settings.loop_indicators)
    ]
    if own and find is None:
        # Commands such as pytest are installed for development.
        request = replace(request, options=replace(request.options, dev=True))
    question = {
        "project": str(folder.absolute()),
        "requirements": sorted(it.text for it in request.requirements),
        "python": target.python_version,
        **({"fixed": dict(request.locked or {})} if find else {}),
        "measured": [[it.name, *(it.command.identity.values() if it.command else ())]
                     for it in benchmarks],
    }  # fmt: skip
    place = settings.home / "measure" / digest(question).removeprefix("sha256:")[:8]
    with ExitStack() as stack:
        commands = [it.command for it in benchmarks if it.command is not None]
        launcher = stack.enter_context(local_launcher(settings, commands, {}))
        stack.enter_context(
            machine_of_this_command(options["wait"], options["share_machine"], warns=False)
        )
        stacks = StackRuns(place, launcher, dict(settings.package_indexes), bool(commands))
        run = _Measuring(
            settings=settings,
            request=request,
            benchmarks=benchmarks,
            folder=SearchFolder(place, _STATE),
            stacks=stacks,
            resolver=resolver,
            options=options,
            find=find,
        )
        run.measure(question, budget_s)


@dataclass
class _Measuring:
    """Rounds of measurements until the time is over or nothing else is worth measuring."""

    settings: Settings
    request: StackRequest
    benchmarks: Sequence[_Benchmark]
    folder: SearchFolder
    stacks: StackRuns
    resolver: Any
    options: Mapping[str, Any]
    find: Callable[[], LockFixes] | None = None
    state: dict[str, Any] = field(default_factory=dict)
    deadline: float = 0.0

    def measure(self, question: Mapping[str, Any], budget_s: float) -> None:
        self.state = self.folder.state(question)
        left_s = float(self.state.get("left_s", 0))
        continues = self.state.get("budget_s") == budget_s and left_s > 0
        self.deadline = time.monotonic() + (left_s if continues else budget_s)
        if continues:
            self._say(f"continues, {duration_text(left_s)} of {duration_text(budget_s)} left")
        else:
            # What another round measured is ingested, and never counts as jobs of this one.
            kept = {it: self.state[it] for it in ("folders", "round") if it in self.state}
            self.state = {"question": dict(question), "budget_s": budget_s, "round": 0} | kept
            self._ingest()
        try:
            while self._round():
                pass
        except SearchStopped:
            self._say("the budget is spent")
            self._ingest()
        except StackFailed:
            self.state["round"] += 1  # else the next command finds the failed job
            raise
        finally:
            self._write_state()
        # The next command begins anew.
        self.state.pop("left_s")
        self.folder.write_state(self.state)

    def _round(self) -> bool:
        """Measure and ingest the stacks of one round; ``False`` if there is none."""
        if "plan" not in self.state and not self._plan():
            return False
        plan, fault = self.state["plan"], ""
        for benchmark in self.benchmarks:
            outcomes = self._outcomes(
                benchmark, plan["stacks"], plan["jobs"], f"round {self.state['round']}"
            )
            for chosen, outcome in zip(plan["stacks"], outcomes, strict=True):
                if not outcome.measured:
                    reason = outcome.failure or f"{benchmark.name} fails on it"
                    message = f"not measured: {chosen['label']}: {reason}"
                    if chosen is plan["stacks"][0]:
                        fault = message
                        continue
                    self.state.setdefault("left_out", []).append(chosen["label"])
                    self._say(message)
        self._ingest()
        if fault:
            raise StackFailed(fault)
        return True

    def _ingest(self) -> None:
        """Ingest the jobs of the round, which is over then."""
        folders = sorted(Path(it) for it in self.state.get("folders", []) if Path(it).is_dir())
        accepted = not folders or ingest_folders(self.settings, folders, as_json=True)
        for name in ("folders", "plan"):
            self.state.pop(name, None)
        self.state["round"] += 1
        self._write_state()
        if not accepted:
            raise StackFailed(
                "the measurements are in quarantine: `thoth ingest quarantine` says why"
            )

    def _plan(self) -> bool:
        """Choose the stacks of the next round; ``False`` if nothing is worth its time."""
        documents = self._stacks()
        reference = next(documents, None)
        if reference is None:
            self._say("nothing else is worth measuring")
            return False
        if "job_s" not in self.state:
            self._time_reference(reference)
        job_s, left_s = self.state["job_s"], _USABLE * (self.deadline - time.monotonic())
        jobs = _JOBS if left_s >= 2 * _JOBS * job_s else MIN_JOBS
        room = int(left_s / (jobs * job_s))
        if room < 2:
            need = 2 * MIN_JOBS * job_s
            self._say(
                f"too little time for {MIN_JOBS} jobs of two stacks, which take about"
                f" {duration_text(need)}"
            )
            return False
        chosen = [reference]
        for document in documents:
            if len(chosen) > min(room - 1, _MOST_STACKS):
                break
            chosen.append(document)
        if len(chosen) < 2:
            self._say("nothing else is worth measuring")
            return False
        duration = duration_text(len(chosen) * jobs * job_s)
        self._say(
            f"{counted(jobs, 'job')} each of {counted(len(chosen), 'stack')}: about {duration}"
            " plus the time to build new environments"
        )
        for document in chosen[1:]:
            self._say(f"  {document['reason']}")
        self.state["plan"] = {"jobs": jobs, "stacks": chosen}
        self._write_state()
        return True

    def _stacks(self) -> Iterator[dict[str, Any]]:
        """The reference, then other stacks by the value of their jobs, as JSON values."""
        with migrated_stores(self.settings) as stores:
            if self.find is None:
                universe, stacks = self._informative_stacks(stores)
            else:
                universe, stacks = _fixed_stacks(self.find())
            reference: dict[str, str] | None = None
            for generated in stacks:
                label = _label(generated, reference)
                if label in self.state.get("left_out", ()):
                    continue
                try:
                    files = files_of_stack(stores, generated)
                    lock = lock_of(generated, universe, files, self.request.environment)
                    python = python_part(lock, universe.direct)
                    self._check(python)
                except NotInstallable as error:
                    self._say(f"not measured: {label}: {error}")
                    if reference is None:
                        return
                    continue
                reference = reference or generated.pins
                yield {"label": label, "reason": generated.reason, "python": python}

    def _informative_stacks(self, stores: Stores) -> tuple[Universe, Iterable[GeneratedStack]]:
        """The stacks that could change the advice."""
        request = on_hardware(stores, self.request, None)
        known = known_stacks(stores, request, {**self.options, "varied": ()}, self.resolver)
        ranking = recorded_ranking(
            stores, request, known, sorted({it.title for it in self.benchmarks}),
            usual_minutes=self.state.get("job_s", 60.0) / 60, threshold=WORTHWHILE,
        )  # fmt: skip
        generation = GenerationOptions(
            Strategy.INFORMATIVE, None, base=request.locked, ranking=ranking
        )
        clock = SearchClock(request.options.budget())
        return known.universe, StackGenerator(known.universe, generation, clock).stacks()

    def _check(self, python: Mapping[str, Any]) -> None:
        """Leave out indicators that measure no package of the project."""
        usable, problem = [], ""
        for benchmark in self.benchmarks:
            try:
                self.stacks.specifications([benchmark.specification(python)])
                usable.append(benchmark)
            except InvalidSpecification as error:
                problem = str(error)
        if not usable:
            raise NotInstallable(
                f"{problem}: name a benchmark of the project in [tool.thoth.benchmarks]"
            )
        self.benchmarks = usable

    def _time_reference(self, reference: Mapping[str, Any]) -> None:
        """Run each benchmark once on the reference, to measure its duration."""
        job_s, names = 0.0, [it.name for it in self.benchmarks]
        for benchmark in self.benchmarks:
            submission = f"warm-up {self.state['round']}"
            (outcome,) = self._outcomes(benchmark, [reference], 1, submission)
            if outcome.failure is not None:
                raise StackFailed(f"the environment cannot be built: {outcome.failure}")
            result = read_job(outcome.folder, 0)
            if not readings_of(result).rates:
                fault = readings_of(result).fault or f"exit code {result.get('exit_code')}"
                text = f"{benchmark.name} failed: {fault}"
                raise StackFailed("\n  ".join([text, *error_lines(result)]))
            job_s += max(0.01, duration_s(result))
        self.state["job_s"] = job_s
        left_s = _USABLE * (self.deadline - time.monotonic())
        self._say(
            f"measures {first_few(names, 5)}: a job takes about {job_s:.2g} s, so"
            f" about {int(left_s / job_s):,} jobs fit into the budget; a comparison needs at least"
            f" {2 * MIN_JOBS}"
        )

    def _outcomes(
        self, benchmark: _Benchmark, stacks: Sequence[Mapping[str, Any]], jobs: int, submission: str
    ) -> list[InspectionOutcome]:
        documents = [benchmark.specification(it["python"]) for it in stacks]
        specifications = self.stacks.specifications(documents)
        if "plan" in self.state:  # else a warm-up, which is not ingested
            # The end of the round ingests these folders, also after an interruption.
            known = self.state.setdefault("folders", [])
            folders = map(str, self.stacks.folders(specifications, jobs, submission))
            known.extend(it for it in folders if it not in known)
            self._write_state()
        wait = None if self.options["share_machine"] else self.options["wait"]
        with inspection_observer(self.settings, wait, quiet=self.options["as_json"]) as observer:
            return self.stacks.run(
                specifications, jobs, submission, observer, lambda: time.monotonic() > self.deadline
            )

    def _write_state(self) -> None:
        """Write the state with the rest of the budget."""
        self.state["left_s"] = max(0.0, self.deadline - time.monotonic())
        self.folder.write_state(self.state)

    def _say(self, text: str) -> None:
        if not self.options["as_json"]:
            click.echo(printable(text), err=True)


def _fixed_stacks(fixes: LockFixes) -> tuple[Universe, Iterable[GeneratedStack]]:
    """The lock, and its fixes whose speed is not settled against it."""
    universe = fixes.result.universe.universe
    unsettled = [it for it in fixes.result.fixes if it.proof and it.verdict in UNSETTLED]
    named = [("the lock", fixes.locked), *((f"its {it.kind} fix", it.versions) for it in unsettled)]
    stacks = []
    for reason, versions in named if unsettled else ():
        choices = [
            Choice(name, it.version, it.purl, place)
            for name, version in versions.items()
            for place, it in enumerate(universe.packages.get(name, ()))
            if same_version(it.version, version)
        ]
        if missing := versions.keys() - {it.name for it in choices}:
            raise NotInstallable(f"{reason}: not installable here: {first_few(sorted(missing), 5)}")
        stacks.append(GeneratedStack(ResolvedStack(tuple(choices), 0), reason))
    return replace(universe, direct=tuple(it.name for it in universe.roots)), stacks


def _label(generated: GeneratedStack, reference: Mapping[str, str] | None) -> str:
    """The versions of a stack that the reference lacks."""
    if reference is None:
        return "the reference"
    changed = [f"{n} {v}" for n, v in generated.pins.items() if reference.get(n) != v]
    return ", ".join(changed) or "the reference"
