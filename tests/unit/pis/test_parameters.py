"""Where a parameter's value comes from, and what it may be."""

from __future__ import annotations

from typing import Any

import pytest

from pis.catalogue import indicator_of
from pis.indicators.errors import Unsupported
from pis.indicators.parameters import Parameter, values_of
from tests.factories.errors import raised

SIZE = Parameter("matrix_size", 512, "order", environment=("NEW_SIZE", "MATMUL_MATRIX_SIZE"))


def values(name: str, *argv: str, **environ: str) -> dict[str, Any]:
    return values_of(indicator_of(name).all_parameters(), argv, environ, "")


def test_flags_win_over_the_environment_and_that_over_defaults() -> None:
    assert values("matmul")["matrix_size"] == 512
    assert values("matmul", MATMUL_MATRIX_SIZE="64")["matrix_size"] == 64
    assert values("matmul", "--matrix-size=32", MATMUL_MATRIX_SIZE="64")["matrix_size"] == 32


def test_the_first_variable_that_is_set_wins() -> None:
    both = {"NEW_SIZE": "1", "MATMUL_MATRIX_SIZE": "2"}
    assert values_of([SIZE], [], both, "")["matrix_size"] == 1
    assert values_of([SIZE], [], {**both, "NEW_SIZE": ""}, "")["matrix_size"] == 2


def test_the_historic_variables_of_matmul_are_understood() -> None:
    historic = values(
        "matmul",
        MATMUL_MATRIX_SIZE="256",
        MATMUL_REPS="20",
        MATMUL_DTYPE="float64",
        MATMUL_DEVICE="gpu",
        MINI_BATCH="40",
    )
    assert historic["matrix_size"] == 256
    assert historic["reps"] == 20
    assert historic["dtype"] == "float64"
    assert historic["device"] == "cuda"
    assert historic["mini_batch"] == 40


def test_a_historic_variable_sets_its_own_indicator_only() -> None:
    assert values("memory", MATMUL_DEVICE="gpu")["device"] == "cpu"


@pytest.mark.parametrize("name", ["--matrix-size=0", "--matrix-size=1e3", "--dtype=float8"])
def test_a_flag_that_cannot_be_used_is_a_usage_error(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with raised(SystemExit, code=2):
        values("matmul", name)
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert name.partition("=")[0] in error


def test_a_variable_that_cannot_be_used_is_named() -> None:
    with pytest.raises(Unsupported, match="MATMUL_REPS"):
        values("matmul", MATMUL_REPS="many")


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        (SIZE, 1.5),
        (SIZE, True),
        (SIZE, None),
        (SIZE, "512.0"),
        (SIZE, 0),
        (Parameter("min_time", 1.0, ""), "nan"),
        (Parameter("name", "text", ""), 3),
        (Parameter("switch", False, ""), "perhaps"),
        (Parameter("shape", "1,2", "a pair", pattern=r"\d,\d"), "1,2;"),
    ],
)
def test_values_of_the_wrong_type_or_out_of_bounds_are_refused(
    parameter: Parameter, value: object
) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        parameter.checked(value)


def test_values_come_in_the_parameters_type() -> None:
    assert SIZE.checked("64") == 64
    assert SIZE.checked(64.0) == 64
    assert Parameter("min_time", 1.0, "").checked(2) == 2.0
    assert Parameter("switch", False, "").checked("Yes") is True
    assert Parameter("padding", "SAME", "", ("SAME", "VALID")).checked("valid") == "VALID"


def test_a_switch_may_stand_alone() -> None:
    switch = Parameter("both_ways", False, "")
    assert values_of([switch], ["--both-ways"], {}, "")["both_ways"] is True
    assert values_of([switch], ["--both-ways=no"], {}, "")["both_ways"] is False
