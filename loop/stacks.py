"""Stacks to measure: the reference of a watch, and the same stack with a new release."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from adviser.advise import Advice, Resolver, advise, assess_candidates
from adviser.answering.answers import files_known, on_hardware
from adviser.answering.knowledge import stored_knowledge
from adviser.locks.formats import LockFormat
from adviser.reports.documents import lock_of
from adviser.resolver.checker import check_stack
from adviser.scoring.assessment_types import Claim, Premises
from common.settings import Settings
from graph.engine import Stores
from graph.record.watches import AdviceWatch
from loop.watched_projects import benchmark_files, confirmed_benchmarks, place_of, request_of_watch
from model.errors import InvalidArgument, ProjectError
from model.measurements.evidence import COMMAND
from model.packages.candidates import Dependency
from pis.amun.schema import InvalidSpecification
from pis.amun.specification import load_specification
from pis.catalogue import arguments_of, indicator_of
from pis.command_specifications import COMMAND_TIMEOUT_S, Command

#: How the text of a project's benchmark begins.
BENCHMARK = "benchmark "


@dataclass(frozen=True, slots=True)
class MeasuredIndicator:
    """An indicator with its parameters, as ``LOOP_INDICATORS`` names it, or a project's benchmark.

    :param text: such as ``matmul:threads=1``, or ``benchmark NAME``
    :param command: of the benchmark; ``None`` for an indicator
    """

    text: str
    name: str
    parameters: Mapping[str, str]
    command: Command | None = None

    @property
    def title(self) -> str:
        """The indicator in documents."""
        return indicator_of(self.name).title if self.command is None else COMMAND

    @property
    def measured_parameters(self) -> Mapping[str, str]:
        """The parameters of its measurements, as texts."""
        if self.command is None:
            return self.parameters
        return {key: str(it) for key, it in self.command.identity.items()}


def own_indicators(settings: Settings, watch: AdviceWatch) -> list[MeasuredIndicator]:
    """The confirmed benchmarks of a watched project."""
    return [
        MeasuredIndicator(f"{BENCHMARK}{name}", name, {}, command)
        for name, command in confirmed_benchmarks(settings, watch).items()
    ]


class NoSuchStack(ProjectError):
    """No valid stack has these versions, or it cannot be installed; the message says why.

    :param unread: whether something was not read, so that this is not proven
    """

    def __init__(self, message: str, *, unread: bool = False) -> None:
        super().__init__(message)
        self.unread = unread


def indicator_named(text: str) -> MeasuredIndicator:
    """Parse an indicator such as ``matmul:matrix_size=256,threads=1``.

    :raises InvalidArgument: if there is no such indicator or parameter

    >>> indicator_named("matmul:matrix_size=256").parameters
    {'matrix_size': '256'}
    """
    name, _, rest = text.partition(":")
    pairs = [it.partition("=") for it in rest.split(",") if it]
    if any(not value for _, _, value in pairs):
        raise InvalidArgument(f"LOOP_INDICATORS: {text!r} is not NAME:PARAMETER=VALUE,…")
    parameters = {key: value for key, _, value in pairs}
    indicator_of(name)
    arguments_of(name, parameters)
    return MeasuredIndicator(text, name, parameters)


@dataclass(frozen=True, slots=True)
class WatchKnowledge:
    """The request of a watch with its knowledge.

    :param advice: the advice that is due now; it is not stored
    :param reference: the stack that new releases are compared with, which the project runs today:
        the lock if there is one, else the last advice
    :param claims: comparisons with the reference, and settled claims between other versions
    """

    watch: AdviceWatch
    advice: Advice
    reference: Mapping[str, str]
    claims: tuple[Claim, ...]

    @property
    def advised(self) -> Mapping[str, str]:
        """The versions of the advised stack; empty without one."""
        return {} if self.advice.best is None else self.advice.best.versions()


def current_knowledge(stores: Stores, watch: AdviceWatch, resolver: Resolver) -> WatchKnowledge:
    """Read the knowledge for a watch, and compute its advice.

    :raises InvalidDocument: if another version of Thoth stored the request
    """
    request = request_of_watch(watch)
    place = place_of(watch)
    files = {} if place is None else benchmark_files(place, request.project.benchmarks)
    request = replace(request, benchmark_files=files)
    if request.hardware is None:
        request = on_hardware(stores, request, None)
    snapshot, evidence = stored_knowledge(stores, request)
    advice = advise(request, snapshot, evidence, resolver=resolver)
    advised = {} if advice.best is None else advice.best.versions()
    reference = request.locked or watch.versions or advised
    claims = advice.assessment.claims
    if dict(reference) != dict(advice.baseline or {}):
        premises = Premises(reference, harm_accepted=True)
        claims = assess_candidates(request, snapshot, evidence, premises).claims
    own = tuple(it for it in claims if it.origin is None)
    return WatchKnowledge(watch, advice, reference, own)


def stack_with(
    stores: Stores, known: WatchKnowledge, pins: Mapping[str, str], resolver: Resolver
) -> Advice:
    """The best valid stack with ``pins``.

    :raises NoSuchStack: with the conflict
    """
    held = tuple(Dependency(name, f"=={version}") for name, version in sorted(pins.items()))
    constraints = (*known.advice.request.options.constraints, *held)
    request = replace(
        known.advice.request, options=replace(known.advice.request.options, constraints=constraints)
    )
    advice = advise(request, known.advice.snapshot, known.advice.evidence, resolver=resolver)
    if advice.best is None:
        conflict = advice.resolution.conflict
        steps = () if conflict is None else conflict.steps
        reason = "; ".join(step.message for step in steps) or "no valid stack contains it"
        raise NoSuchStack(reason, unread=bool(advice.unread))
    if faults := check_stack(advice.universe, advice.best):
        raise NoSuchStack(f"the resolver's stack is invalid: {faults[0]}")
    if any(advice.best.versions().get(name) != version for name, version in pins.items()):
        message = "no package of the stack requires it"
        raise NoSuchStack(message, unread=bool(advice.unread))
    return advice


def specification_of_stack(
    stores: Stores, advice: Advice, indicator: MeasuredIndicator
) -> dict[str, Any]:
    """The specification that measures a stack, with the hashes of its files.

    :raises NoSuchStack: if a file has no hash, so that it cannot be locked, or if the stack lacks
        the library that the indicator measures
    """
    if advice.best is None:
        raise NoSuchStack("no valid stack contains it")
    try:
        lock = lock_of(advice, advice.best, files_known(stores, advice), LockFormat.PIPFILE_LOCK)
    except ProjectError as error:
        raise NoSuchStack(str(error)) from error
    names = [it.name for it in advice.request.roots]
    image = stores.settings.loop_image
    python = {
        "requirements": {
            "packages": dict.fromkeys(sorted(names), "*"),
            "requires": {"python_version": advice.request.environment.python_version},
        },
        "requirements_locked": orjson.loads(lock.data),
    }
    document = {
        "script": indicator.name,
        **({"base": image} if image is not None else {}),
        **({"parameters": dict(indicator.parameters)} if indicator.parameters else {}),
        "python": python,
    }
    if indicator.command is not None:
        document = indicator.command.specification(python, {}, COMMAND_TIMEOUT_S)
    try:
        load_specification(document, dict(stores.settings.package_indexes))
    except InvalidSpecification as error:
        raise NoSuchStack(str(error)) from error
    return document
