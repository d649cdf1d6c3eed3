"""The performance indicators there are, and what each takes."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from common.errors import ProjectError
from pis.indicators.harness import Indicator

#: Module of each indicator by the name that commands and specifications use.
INDICATORS: dict[str, str] = {
    "matmul": "pis.indicators.matmul",
    "gemm": "pis.indicators.gemm",
    "conv1d": "pis.indicators.conv1d",
    "conv2d": "pis.indicators.conv2d",
    "rnn": "pis.indicators.rnn",
    "lstm": "pis.indicators.lstm",
    "memory": "pis.indicators.memory",
    "import": "pis.indicators.import_time",
    "train": "pis.indicators.train",
    "infer": "pis.indicators.infer",
}


class UnknownIndicator(ProjectError):
    """A name that no indicator has."""

    hint = "`thoth pi list` shows what there is"

    def __init__(self, name: str) -> None:
        super().__init__(f"no indicator is called {name!r}; there are {', '.join(INDICATORS)}")
        self.name = name


class InvalidParameters(ProjectError):
    """Parameters that an indicator cannot take.

    :param problems: what is wrong, by parameter name
    """

    def __init__(self, indicator: str, problems: Mapping[str, str]) -> None:
        told = "; ".join(f"{name}: {problem}" for name, problem in problems.items())
        super().__init__(f"{indicator}: {told}")
        self.problems = dict(problems)
        self.hint = f"`thoth pi describe {indicator}` shows what it takes"


def module_of(name: str) -> str:
    """Dotted name of an indicator's module.

    :raises UnknownIndicator: if there is none of that name
    """
    if name not in INDICATORS:
        raise UnknownIndicator(name)
    return INDICATORS[name]


def indicator_of(name: str) -> Indicator:
    """The indicator called ``name``.

    :raises UnknownIndicator: if there is none of that name
    """
    indicator = import_module(module_of(name)).INDICATOR
    assert isinstance(indicator, Indicator)  # noqa: S101
    return indicator


def arguments_of(name: str, values: Mapping[str, Any]) -> list[str]:
    """Flags for the indicator's script, in the order of its parameters.

    :param values: by parameter name, as :meth:`Parameter.checked` takes them
    :raises UnknownIndicator: if there is none of that name
    :raises InvalidParameters: naming every parameter that it does not take so

    >>> arguments_of("matmul", {"threads": 2, "matrix_size": "256"})
    ['--matrix-size=256', '--threads=2']
    """
    known = {it.name: it for it in indicator_of(name).all_parameters()}
    problems = {it: "there is no such parameter" for it in values if it not in known}
    arguments = []
    for parameter in known.values():
        if parameter.name not in values:
            continue
        try:
            checked = parameter.checked(values[parameter.name])
            arguments.append(f"{parameter.flag}={checked}")
        except ValueError as error:
            problems[parameter.name] = str(error)
    if problems:
        raise InvalidParameters(name, problems)
    return arguments
