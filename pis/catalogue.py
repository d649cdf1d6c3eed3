"""The performance indicators there are, and what each takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from itertools import zip_longest
from math import inf
from typing import Any

from common.errors import InvalidArgument
from pis.indicators.harness import Indicator
from pis.indicators.parameters import Parameter

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

#: Bounds that are narrower here than in the scripts: a thread each is started and measured.
_MOST = {"threads": 1024}


class UnknownIndicator(InvalidArgument):
    """A name that no indicator has."""

    hint = "`thoth pi list` shows what there is"

    def __init__(self, name: str) -> None:
        super().__init__(f"no indicator is called {name!r}; there are {', '.join(INDICATORS)}")
        self.name = name


class InvalidParameters(InvalidArgument):
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
            checked = checked_value(parameter, values[parameter.name])
            arguments.append(f"{parameter.flag}={checked}")
        except ValueError as error:
            problems[parameter.name] = str(error)
    if problems:
        raise InvalidParameters(name, problems)
    return arguments


def check_flags(name: str, arguments: Sequence[str]) -> None:
    """See that the numbers among a script's flags are within bounds; it judges all else itself.

    :raises UnknownIndicator: if there is none of that name
    :raises InvalidParameters: naming every number that it does not take
    """
    known = {it.flag: it for it in indicator_of(name).all_parameters()}
    problems = {}
    for flag, text in _given(arguments):
        parameter = known.get(flag)
        if parameter is not None and type(parameter.default) in (int, float):
            try:
                checked_value(parameter, text)
            except ValueError as error:
                problems[parameter.name] = str(error)
    if problems:
        raise InvalidParameters(name, problems)


def _given(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Flags with their values, which follow behind ``=`` or as the next argument."""
    for argument, following in zip_longest(arguments, arguments[1:]):
        flag, equals, text = argument.partition("=")
        if equals:
            yield flag, text
        elif following is not None:
            yield flag, following


def checked_value(parameter: Parameter, value: Any) -> Any:
    """``value`` as :meth:`Parameter.checked` gives it, within the bounds that hold here.

    :raises ValueError: for a person, without the parameter's name

    >>> checked_value(Parameter("threads", 0, "of the library", low=0), 100_000)
    Traceback (most recent call last):
    ValueError: 100000 is not within 0 … 1024
    """
    typed = replace(parameter, low=-inf, high=inf).checked(value)
    low, high = parameter.low, _MOST.get(parameter.name, parameter.high)
    if isinstance(typed, (int, float)) and not isinstance(typed, bool) and not low <= typed <= high:
        raise ValueError(f"{typed} is not within {_plain(low)} … {_plain(high)}")
    return typed


def _plain(bound: float) -> str:
    return f"{bound:.0f}" if bound == int(bound) else f"{bound:g}"
