"""What indicators there are, where a parameter's value comes from, and what it may be."""

import re
from pathlib import Path
from typing import Any

import pytest

from model.measurements.units import PARAMETERS
from pis.catalogue import INDICATORS, InvalidParameters, arguments_of, indicator_of
from pis.indicators.deepbench import PRESETS
from pis.indicators.errors import Unsupported
from pis.indicators.gemm import shapes_of
from pis.indicators.parameters import Parameter, values_of
from tests.factories.errors import raised

SIZE = Parameter("matrix_size", 512, "order", environment=("NEW_SIZE", "MATMUL_MATRIX_SIZE"))


def values(name: str, *argv: str, **environ: str) -> dict[str, Any]:
    return values_of(indicator_of(name).all_parameters(), argv, environ, "")


def test_indicator_flags_override_variables_which_override_defaults() -> None:
    assert values("matmul")["matrix_size"] == 512
    assert values("matmul", MATMUL_MATRIX_SIZE="64")["matrix_size"] == 64
    assert values("matmul", "--matrix-size=32", MATMUL_MATRIX_SIZE="64")["matrix_size"] == 32
    both = {"NEW_SIZE": "1", "MATMUL_MATRIX_SIZE": "2"}
    assert values_of([SIZE], [], both, "")["matrix_size"] == 1
    assert values_of([SIZE], [], {**both, "NEW_SIZE": ""}, "")["matrix_size"] == 2


def test_historic_matmul_variables_are_understood() -> None:
    given = {"MATMUL_MATRIX_SIZE": "256", "MATMUL_REPS": "20", "MATMUL_DTYPE": "float64",
             "MATMUL_DEVICE": "gpu", "MINI_BATCH": "40"}  # fmt: skip
    meant = {"matrix_size": 256, "reps": 20, "dtype": "float64", "device": "cuda", "mini_batch": 40}
    assert values("matmul", **given).items() >= meant.items()
    assert values("memory", MATMUL_DEVICE="gpu")["device"] == "cpu"


@pytest.mark.parametrize("name", ["--matrix-size=0", "--matrix-size=1e3", "--dtype=float8"])
def test_invalid_flag_is_a_usage_error(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with raised(SystemExit, code=2):
        values("matmul", name)
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert name.partition("=")[0] in error


def test_all_invalid_indicator_parameters_are_reported_together() -> None:
    with pytest.raises(InvalidParameters) as refused:
        arguments_of("matmul", {"matrix_size": "large", "colour": "red", "device": "tpu"})
    assert refused.value.problems.keys() == {"matrix_size", "colour", "device"}
    assert "colour: there is no such parameter" in str(refused.value)
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
def test_indicator_values_of_wrong_type_or_out_of_bounds_are_refused(
    parameter: Parameter, value: object
) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        parameter.checked(value)


def test_parameter_values_are_converted_to_their_type() -> None:
    assert SIZE.checked("64") == 64
    assert SIZE.checked(64.0) == 64
    assert Parameter("min_time", 1.0, "").checked(2) == 2.0
    assert Parameter("switch", False, "").checked("Yes") is True
    assert Parameter("padding", "SAME", "", ("SAME", "VALID")).checked("valid") == "VALID"
    switch = Parameter("both_ways", False, "")
    assert values_of([switch], ["--both-ways"], {}, "")["both_ways"] is True
    assert values_of([switch], ["--both-ways=no"], {}, "")["both_ways"] is False


@pytest.mark.parametrize("name", INDICATORS)
def test_indicator_parameters_have_unique_names_and_valid_defaults(name: str) -> None:
    indicator = indicator_of(name)
    assert (indicator.name, indicator.title[:2]) == (name, "Pi")
    assert indicator.frameworks
    assert indicator.summary.endswith(".")
    names = [parameter.name for parameter in indicator.all_parameters()]
    assert len(names) == len(set(names))
    for parameter in indicator.all_parameters():
        assert parameter.checked(parameter.default) == parameter.default, parameter.name
    text = (Path(__file__).parents[3] / "docs/reference/indicators.md").read_text("utf-8")
    assert re.search(rf"(?m)^- (`[\w-]+`, )*`{name}`", text)


def test_indicator_flags_follow_the_order_of_the_parameters() -> None:
    given = {"seed": 1, "device": "gpu", "matrix_size": 64, "min_time": 0.5}
    assert arguments_of("matmul", given) == [
        "--matrix-size=64", "--device=cuda", "--seed=1", "--min-time=0.5",
    ]  # fmt: skip


def test_shape_presets_equal_the_lists_of_deepbench() -> None:
    assert {name: len(shapes) for name, shapes in PRESETS.items()} == {
        "deepbench-training": 160,
        "deepbench-inference-server": 75,
        "deepbench-inference-device": 13,
    }
    for shapes in PRESETS.values():
        assert len(set(shapes)) == len(shapes)
    assert (1760, 7133, 1760, "nt") in PRESETS["deepbench-training"]


def test_gemm_shapes_can_be_given_explicitly() -> None:
    parameter = next(it for it in indicator_of("gemm").parameters if it.name == "shapes")
    text = parameter.checked("1024,128,1024,n,t; 35,8457,2560,tn;")
    assert shapes_of(text) == [(1024, 128, 1024, "nt"), (35, 8457, 2560, "tn")]
    for wrong in ("", "1,2,3", "1,2,3,x,n", "0,1,1,n,n", "1,2,3,n,n,4", "deepbench"):
        with pytest.raises(ValueError, match="does not read like"):
            parameter.checked(wrong)


def test_each_indicator_parameter_is_a_property_in_the_graph() -> None:
    """All observations have a device; the other exceptions are not part of a measurement."""
    elsewhere = {"device", "framework", "min_time", "shapes"}
    names = {it.name for name in INDICATORS for it in indicator_of(name).all_parameters()}
    assert names - elsewhere <= set(PARAMETERS)
    assert {"m", "n", "k", "transposes", "module", "cell"} <= set(PARAMETERS)
    assert list(PARAMETERS) == sorted(PARAMETERS)
