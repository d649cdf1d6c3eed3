"""What indicators there are, and flags for them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from model.measurements.units import PARAMETERS
from pis.catalogue import INDICATORS, InvalidParameters, arguments_of, indicator_of
from pis.indicators.deepbench import PRESETS
from pis.indicators.gemm import shapes_of


@pytest.mark.parametrize("name", INDICATORS)
def test_each_indicator_goes_by_its_name(name: str) -> None:
    indicator = indicator_of(name)
    assert indicator.name == name
    assert indicator.title.startswith("Pi")
    assert indicator.frameworks
    assert indicator.summary.endswith(".")


@pytest.mark.parametrize("name", INDICATORS)
def test_each_default_is_a_value_that_may_be_given(name: str) -> None:
    for parameter in indicator_of(name).all_parameters():
        assert parameter.checked(parameter.default) == parameter.default, parameter.name


@pytest.mark.parametrize("name", INDICATORS)
def test_no_parameter_is_there_twice(name: str) -> None:
    names = [parameter.name for parameter in indicator_of(name).all_parameters()]
    assert len(names) == len(set(names))


def test_all_that_is_wrong_with_parameters_is_reported_at_once() -> None:
    with pytest.raises(InvalidParameters) as refused:
        arguments_of("matmul", {"matrix_size": "large", "colour": "red", "device": "tpu"})
    assert refused.value.problems.keys() == {"matrix_size", "colour", "device"}
    assert "colour: there is no such parameter" in str(refused.value)


def test_flags_stand_in_the_parameters_order() -> None:
    given = {"seed": 1, "device": "gpu", "matrix_size": 64, "min_time": 0.5}
    assert arguments_of("matmul", given) == [
        "--matrix-size=64", "--device=cuda", "--seed=1", "--min-time=0.5",
    ]  # fmt: skip


def test_the_presets_are_deepbenchs_lists() -> None:
    assert {name: len(shapes) for name, shapes in PRESETS.items()} == {
        "deepbench-training": 160,
        "deepbench-inference-server": 75,
        "deepbench-inference-device": 13,
    }
    for shapes in PRESETS.values():
        assert len(set(shapes)) == len(shapes)
    assert (1760, 7133, 1760, "nt") in PRESETS["deepbench-training"]


def test_shapes_may_be_written_out() -> None:
    parameter = next(it for it in indicator_of("gemm").parameters if it.name == "shapes")
    text = parameter.checked("1024,128,1024,n,t; 35,8457,2560,tn;")
    assert shapes_of(text) == [(1024, 128, 1024, "nt"), (35, 8457, 2560, "tn")]
    for wrong in ("", "1,2,3", "1,2,3,x,n", "0,1,1,n,n", "1,2,3,n,n,4", "deepbench"):
        with pytest.raises(ValueError, match="does not read like"):
            parameter.checked(wrong)


@pytest.mark.parametrize("name", INDICATORS)
def test_the_reference_names_each_indicator(name: str) -> None:
    text = (Path(__file__).parents[3] / "docs/reference/indicators.md").read_text("utf-8")
    assert re.search(rf"(?m)^- (`[\w-]+`, )*`{name}`", text)


def test_whatever_defines_a_measurement_is_a_property_of_its_own_in_the_graph() -> None:
    """All observations have a device; the other exceptions are not part of a measurement."""
    elsewhere = {"device", "framework", "min_time", "shapes"}
    names = {it.name for name in INDICATORS for it in indicator_of(name).all_parameters()}
    assert names - elsewhere <= set(PARAMETERS)
    assert {"m", "n", "k", "transposes", "module", "cell"} <= set(PARAMETERS)
    assert list(PARAMETERS) == sorted(PARAMETERS)
