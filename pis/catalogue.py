"""The performance indicators and their parameters."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from itertools import zip_longest
from math import inf
from typing import Any

from model.errors import InvalidArgument
from pis.indicators.harness import Indicator
from pis.indicators.parameters import Parameter

#: Those that measure operations of one library of any kind, with their modules.
LIBRARY_INDICATORS: dict[str, str] = {
    "pandas": "pis.indicators.pandas_tables",
    "polars": "pis.indicators.polars_tables",
    "pyarrow": "pis.indicators.arrow_tables",
    "scipy": "pis.indicators.scipy_calls",
    "scikit-learn": "pis.indicators.learn_models",
    "numba": "pis.indicators.numba_calls",
    "boosting": "pis.indicators.boosting",
    "arrays": "pis.indicators.array_calls",
    "orjson": "pis.indicators.orjson_documents",
    "msgspec": "pis.indicators.msgspec_documents",
    "pydantic": "pis.indicators.pydantic_models",
    "sqlalchemy": "pis.indicators.sqlalchemy_core",
    "lxml": "pis.indicators.lxml_trees",
    "pillow": "pis.indicators.pillow_images",
    "tokenizers": "pis.indicators.tokenizers_bpe",
    "onnxruntime": "pis.indicators.onnxruntime_networks",
}

#: Indicators by their name in commands and specifications, with their modules.
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
    "deepbench-conv": "pis.indicators.deepbench_conv",
    "deepbench-rnn": "pis.indicators.deepbench_rnn",
    "attention": "pis.indicators.attention",
    "generate": "pis.indicators.generate",
    "compile": "pis.indicators.compile_time",
    "cnn-throughput": "pis.indicators.cnn_throughput",
    "batch-latency": "pis.indicators.batch_latency",
    "batch-sweep": "pis.indicators.batch_sweep",
    "frame-latency": "pis.indicators.frame_latency",
    "vips": "pis.indicators.valid_images",
    "time-to-accuracy": "pis.indicators.time_to_accuracy",
    "automl": "pis.indicators.automl",
    "loadgen": "pis.indicators.loadgen",
    **LIBRARY_INDICATORS,
}

#: Upper bounds below those of the scripts, as each thread is started and measured.
_MOST = {"threads": 1024}


class UnknownIndicator(InvalidArgument):
    """There is no indicator of that name."""

    hint = "`thoth pi list` lists the indicators"

    def __init__(self, name: str) -> None:
        super().__init__(f"{name!r} is not an indicator: use one of {', '.join(INDICATORS)}")
        self.name = name


class InvalidParameters(InvalidArgument):
    """Invalid parameters of an indicator.

    :param problems: messages by parameter name
    """

    def __init__(self, indicator: str, problems: Mapping[str, str]) -> None:
        message = "; ".join(f"{name}: {problem}" for name, problem in problems.items())
        super().__init__(f"{indicator}: {message}")
        self.problems = dict(problems)
        self.hint = f"`thoth pi describe {indicator}` lists its parameters"


def module_of(name: str) -> str:
    """Return the dotted name of an indicator's module.

    :raises UnknownIndicator: if there is no such indicator
    """
    if name not in INDICATORS:
        raise UnknownIndicator(name)
    return INDICATORS[name]


@cache
def summaries() -> Mapping[str, str]:
    """Summaries of the indicators, by the name in their results."""
    return {it.title: it.summary for it in map(indicator_of, INDICATORS)}


def indicator_of(name: str) -> Indicator:
    """Return the indicator ``name``.

    :raises UnknownIndicator: if there is no such indicator
    """
    indicator = import_module(module_of(name)).INDICATOR
    assert isinstance(indicator, Indicator)  # noqa: S101
    return indicator


def arguments_of(name: str, values: Mapping[str, Any]) -> list[str]:
    """Return the arguments of the indicator's script, in the order of its parameters.

    :param values: by parameter name, in any type that :meth:`Parameter.checked` accepts
    :raises UnknownIndicator: if there is no such indicator
    :raises InvalidParameters: with the problem of every invalid parameter

    >>> arguments_of("matmul", {"threads": 2, "matrix_size": "256"})
    ['--matrix-size=256', '--threads=2']
    """
    known = {parameter.name: parameter for parameter in indicator_of(name).all_parameters()}
    problems = {key: "there is no such parameter" for key in values if key not in known}
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
    """Check that numbers in a script's arguments are in range; the script checks the rest.

    :raises UnknownIndicator: if there is no such indicator
    :raises InvalidParameters: with the problem of every invalid number
    """
    known = {parameter.flag: parameter for parameter in indicator_of(name).all_parameters()}
    problems = {}
    for flag, text in _flags_with_values(arguments):
        parameter = known.get(flag)
        if parameter is not None and type(parameter.default) in (int, float):
            try:
                checked_value(parameter, text)
            except ValueError as error:
                problems[parameter.name] = str(error)
    if problems:
        raise InvalidParameters(name, problems)


def _flags_with_values(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield flags with their values; a value follows after ``=`` or is the next argument."""
    for argument, following in zip_longest(arguments, arguments[1:]):
        flag, equals, text = argument.partition("=")
        if equals:
            yield flag, text
        elif following is not None:
            yield flag, following


def checked_value(parameter: Parameter, value: Any) -> Any:
    """Convert ``value`` by :meth:`Parameter.checked`, and check it against our bounds.

    :raises ValueError: with a message for people, without the parameter's name

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
