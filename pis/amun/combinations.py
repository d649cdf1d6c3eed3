"""What an indicator cannot measure on a stack, as far as it is known before that is built."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from common.packages import distributions_of
from pis.amun.locks import Lock
from pis.amun.problems import Problem
from pis.indicators.harness import Indicator
from pis.indicators.parameters import Parameter

#: Each indicator measures one of these.
FRAMEWORKS: Mapping[str, tuple[str, ...]] = {
    "torch": distributions_of("pytorch"),
    "tensorflow": distributions_of("tensorflow"),
    "numpy": distributions_of("numpy"),
}
_NUMPY_LACKS = (("device", "cuda"), ("dtype", "bfloat16"))


def framework_of(lock: Lock) -> str:
    """The framework that a stack is about: the only one beside NumPy, else NumPy."""
    present = [name for name in FRAMEWORKS if name != "numpy" and _has(lock, name)]
    return present[0] if len(present) == 1 else "numpy"


def combination_problems(
    record: Mapping[str, Any], indicator: Indicator, lock: Lock | None
) -> Iterator[Problem]:
    """A framework that is not locked, and what the framework or the indicator refuses to do.

    :param record: of a specification whose parameters are ones of ``indicator``
    :param lock: ``None`` if it could not be read
    """
    chosen = {"framework": framework_of(lock)} if lock is not None else {}
    places = dict.fromkeys(chosen, "python")
    for parameter in indicator.all_parameters():
        at, value = _given(record, parameter)
        if at is None:
            continue
        try:
            chosen[parameter.name], places[parameter.name] = parameter.checked(value), at
        except ValueError as error:
            yield Problem(at, f"{parameter.name}: {error}")
    framework = chosen.get("framework")
    if framework is None:
        return
    if lock is not None and not _has(lock, framework):
        words = f"the lock has no {framework}, which {indicator.name} would measure"
        yield Problem(places["framework"], words)
    for name, value in _NUMPY_LACKS if framework == "numpy" else ():
        if chosen.get(name) == value:
            yield Problem(places[name], f"{value}: numpy has none; choose torch or tensorflow")


def _has(lock: Lock, framework: str) -> bool:
    names = {package.name for package in lock.packages}
    return not names.isdisjoint(FRAMEWORKS.get(framework, (framework,)))


def _given(record: Mapping[str, Any], parameter: Parameter) -> tuple[str | None, Any]:
    """Where a parameter is given, as a script looks for it, and its value."""
    parameters = record.get("parameters", {})
    if parameter.name in parameters:
        return f"parameters.{parameter.name}", parameters[parameter.name]
    variables = {
        it["name"]: (number, it["value"]) for number, it in enumerate(record.get("environment", ()))
    }
    for name in parameter.environment:
        number, value = variables.get(name, (0, ""))
        if value:
            return f"environment[{number}].value", value
    return None, None
