"""Parameters of indicators, with their flags, historic environment variables and bounds."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from pis.indicators.errors import Unsupported

_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


@dataclass(frozen=True)
class Parameter:
    """A parameter of an indicator that a user can set.

    :param name: in JSON; the flag ``--matrix-size`` belongs to ``matrix_size``
    :param default: its type (int, float, str or bool) is the parameter's type
    :param choices: the allowed values; empty if all values are allowed
    :param environment: historic variables; the first that is set wins, a flag wins over them
    :param low: smallest number allowed; bounds are ignored for other types
    :param high: largest number allowed
    :param pattern: regular expression that the whole of a text must match
    :param spellings: pairs of a historic spelling and its meaning
    """

    name: str
    default: Any
    help: str
    choices: tuple[Any, ...] = ()
    environment: tuple[str, ...] = ()
    low: float = 1
    high: float = 2**40
    spellings: tuple[tuple[str, str], ...] = ()
    pattern: str = ""

    @property
    def flag(self) -> str:
        """
        >>> Parameter("matrix_size", 512, "order of the matrices").flag
        '--matrix-size'
        """
        return "--" + self.name.replace("_", "-")

    def checked(self, value: Any) -> Any:
        """Convert ``value``, which may be text, to the parameter's type.

        :raises ValueError: with a message for a person, without the parameter's name

        >>> Parameter("device", "cpu", "", ("cpu", "cuda"), spellings=(("gpu", "cuda"),)).checked(
        ...     "GPU")
        'cuda'
        """
        typed = self._typed(value)
        if self.choices and typed not in self.choices:
            raise ValueError(f"{value!r} is none of {', '.join(map(str, self.choices))}")
        if self.pattern and not re.fullmatch(self.pattern, typed):
            raise ValueError(f"{value!r} does not read like {self.help}")
        if isinstance(typed, (int, float)) and not isinstance(typed, bool):
            self._bounded(typed)
        return typed

    def _typed(self, value: Any) -> Any:
        kind = type(self.default)
        if kind is bool:
            return _bool_of(value)
        if kind is str:
            if not isinstance(value, str):
                raise ValueError(f"{value!r} is no text")
            return self._spelled(value)
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise ValueError(f"{value!r} is no number")
        try:
            number = kind(value)
        except (ValueError, OverflowError):
            raise ValueError(f"{value!r} is no {_KINDS[kind]}") from None
        if number != value and not isinstance(value, str):
            raise ValueError(f"{value!r} is no {_KINDS[kind]}")
        return number

    def _spelled(self, value: str) -> str:
        for known in self.choices:
            if str(known).lower() == value.lower():
                return str(known)
        return dict(self.spellings).get(value.lower(), value)

    def _bounded(self, number: float) -> None:
        if not self.low <= number <= self.high:
            # An int may be too large for any other format.
            raise ValueError(f"{str(number)[:20]} is not within {self.low:g} … {self.high:g}")


_KINDS = {int: "whole number", float: "number"}


def _bool_of(value: Any) -> bool:
    word = str(value).lower()
    if word not in _TRUE + _FALSE:
        raise ValueError(f"{value!r} is neither true nor false")
    return word in _TRUE


#: The parameters of every indicator. 0 stands for "chosen automatically".
COMMON = (
    Parameter("framework", "numpy", "library to measure", ("numpy", "torch", "tensorflow")),
    Parameter("device", "cpu", "where to compute", ("cpu", "cuda"), spellings=(("gpu", "cuda"),)),
    Parameter("threads", 0, "CPU threads; 0: OMP_NUM_THREADS, else the CPUs there are", low=0),
    Parameter("seed", 0, "of the random inputs", low=0, high=2**31 - 1),
    Parameter("reps", 0, "repetitions; 0: until the minimal time is over", low=0, high=10**4),
    Parameter("min_time", 1.0, "seconds to measure at least, warm-up apart", low=0, high=3600),
    Parameter(
        "mini_batch", 0, "calls a repetition; 0: as many as the clock needs",
        environment=("MINI_BATCH",), low=0, high=10**9,
    ),
    Parameter("mode", "function", "how TensorFlow runs", ("eager", "function")),
)  # fmt: skip


def all_parameters(
    own: Sequence[Parameter],
    frameworks: Sequence[str],
    historic: Mapping[str, tuple[str, ...]],
) -> tuple[Parameter, ...]:
    """An indicator's own parameters, then the common ones, adapted to the indicator.

    :param frameworks: frameworks that the indicator can measure, the default first
    :param historic: environment variables for common parameters, by parameter name
    """
    names = {parameter.name for parameter in own}
    common = [
        replace(
            parameter,
            environment=tuple(historic.get(parameter.name, ())) + parameter.environment,
        )
        for parameter in COMMON
        if parameter.name not in names
    ]
    common[0] = replace(common[0], default=frameworks[0], choices=tuple(frameworks))
    return (*own, *common)


def values_of(
    parameters: Sequence[Parameter],
    argv: Sequence[str] | None,
    environ: Mapping[str, str],
    description: str,
) -> dict[str, Any]:
    """The value of each parameter and of ``quiet``, from flags, environment or defaults.

    :raises Unsupported: for a variable that cannot be used
    :raises SystemExit: 2 for a flag that cannot be used, 0 for ``--help``
    """
    parser = _parser(parameters, description)
    given = vars(parser.parse_args(argv))
    return {
        "quiet": given.pop("quiet"),
        **{it.name: _value_of(it, given.get(it.name), environ) for it in parameters},
    }


def _value_of(parameter: Parameter, given: Any, environ: Mapping[str, str]) -> Any:
    if given is not None:
        return given
    for variable in parameter.environment:
        if environ.get(variable):
            try:
                return parameter.checked(environ[variable])
            except ValueError as error:
                raise Unsupported(f"environment variable {variable}: {error}") from None
    return parameter.default


class _Parser(argparse.ArgumentParser):
    """A parser of flags whose error messages have one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message} (--help lists what there is)\n")


def _parser(parameters: Sequence[Parameter], description: str) -> _Parser:
    parser = _Parser(description=description, allow_abbrev=False)
    for parameter in parameters:
        switch: dict[str, Any] = {"nargs": "?", "const": True}
        parser.add_argument(
            parameter.flag,
            dest=parameter.name,
            type=_argument_type(parameter),
            help=_help_of(parameter),
            **(switch if isinstance(parameter.default, bool) else {}),
        )
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")
    return parser


def _argument_type(parameter: Parameter) -> Any:
    def checked(text: str) -> Any:
        try:
            return parameter.checked(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return checked


def _help_of(parameter: Parameter) -> str:
    parts = [parameter.help]
    if parameter.choices:
        parts.append("one of " + ", ".join(map(str, parameter.choices)))
    parts.append(f"default {parameter.default}")
    if parameter.environment:
        parts.append("variable " + " or ".join(parameter.environment))
    return "; ".join(parts).replace("%", "%%")
