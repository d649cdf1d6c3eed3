"""Environments: markers and tags, with what packaging says of this interpreter as the oracle."""

from datetime import UTC, datetime

import pytest
from packaging.markers import Marker, default_environment
from packaging.tags import parse_tag, sys_tags

from model.errors import InvalidArgument
from model.packages.environments import environment, host_environment


def test_host_environment_has_the_wheel_tags_of_its_interpreter_in_order() -> None:
    assert host_environment().tags == tuple(dict.fromkeys(sys_tags()))


def test_host_environment_has_the_marker_values_of_its_interpreter() -> None:
    assert dict(host_environment().markers) == dict(default_environment())


def test_environment_described_like_the_host_has_the_wheel_tags_of_the_host() -> None:
    host = host_environment()
    assert environment(host.python_version, host.platform).tags == host.tags


def test_unstated_parts_of_an_environment_are_those_of_the_host() -> None:
    host = host_environment()
    other = environment("3.12")
    assert (other.python_version, other.libc, other.os_name) == ("3.12", host.libc, host.os_name)
    assert environment(platform="win_amd64").python_full_version == host.python_full_version
    assert environment() == host


@pytest.mark.parametrize(
    ("python", "platform", "fits", "refused"),
    [
        ("3.11", "manylinux_2_28_x86_64", "cp311-cp311-manylinux_2_28_x86_64",
         "cp311-cp311-manylinux_2_29_x86_64"),
        ("3.11", "linux_x86_64", "cp39-abi3-manylinux2010_x86_64",
         "cp312-abi3-manylinux2010_x86_64"),
        ("3.11", "manylinux2014_aarch64", "py3-none-manylinux_2_17_aarch64",
         "py3-none-manylinux1_aarch64"),
        ("3.11", "musllinux_1_2_x86_64", "cp311-cp311-musllinux_1_1_x86_64",
         "cp311-cp311-manylinux_2_17_x86_64"),
        ("3.12", "macosx_14_0_arm64", "cp312-cp312-macosx_11_0_universal2",
         "cp312-cp312-macosx_15_0_arm64"),
        ("3.12", "win_amd64", "cp312-cp312-win_amd64", "cp312-cp312-win32"),
        ("3.13t", "linux_x86_64", "cp313-cp313t-manylinux_2_17_x86_64",
         "cp39-abi3-manylinux_2_17_x86_64"),
        ("pypy3.10", "linux_x86_64", "pp310-pypy310_pp73-manylinux_2_17_x86_64",
         "cp310-cp310-manylinux_2_17_x86_64"),
        ("3.11", "linux_x86_64", "py2.py3-none-any", "py2-none-any"),
    ],
)  # fmt: skip
def test_environment_accepts_only_wheels_for_its_python_and_platform(
    python: str, platform: str, fits: str, refused: str
) -> None:
    tags = set(environment(python, platform).tags)
    assert tags & parse_tag(fits)
    assert not tags & parse_tag(refused)


def test_generic_pypy_tags_name_the_major_version_only() -> None:
    tags = {str(tag) for tag in environment("pypy3.10", "linux_x86_64").tags}
    assert "pp3-none-any" in tags  # as packaging's own sys_tags have it
    assert "pp310-none-any" not in tags


@pytest.mark.parametrize(
    ("platform", "marker"),
    [
        ("linux_x86_64", "platform_machine == 'x86_64' and sys_platform == 'linux'"),
        ("macosx_14_0_arm64", "platform_machine == 'arm64' and platform_system == 'Darwin'"),
        ("win_amd64", "platform_machine == 'AMD64' and os_name == 'nt'"),
        ("linux_aarch64", "platform_machine == 'aarch64' and python_full_version == '3.11.7'"),
    ],
)
def test_environment_sets_marker_values(platform: str, marker: str) -> None:
    markers = dict(environment("3.11.7", platform).markers)
    assert Marker(marker).evaluate(markers)
    assert not Marker("python_version >= '3.12'").evaluate(markers)


@pytest.mark.parametrize(
    "python",
    ["", "3", "2.7", "4.0", "3.11.7.1", "311", "3.12t", "pypy3.13t", "3.11; x", "jython3.11"],
)
def test_invalid_python_is_refused_with_its_text(python: str) -> None:
    with pytest.raises(InvalidArgument, match="Python"):
        environment(python, "linux_x86_64")


def test_python_not_released_yet_is_refused_with_its_year() -> None:
    with pytest.raises(InvalidArgument, match=r"3\.99 is released in 2110"):
        environment("3.99", "linux_x86_64")
    in_development = datetime.now(UTC).year - 2010
    assert environment(f"3.{in_development}").python_version == f"3.{in_development}"
    with pytest.raises(InvalidArgument, match="does not exist yet"):
        environment(f"3.{in_development + 1}")


@pytest.mark.parametrize(
    "platform",
    ["", "linux", "linux_vax", "manylinux_2_x86_64", "manylinux2015_x86_64", "win_arm",
     "macosx_14_arm64", "any", "linux_x86_64\n"],
)  # fmt: skip
def test_unknown_platform_is_refused_with_its_text(platform: str) -> None:
    with pytest.raises(InvalidArgument, match="platform"):
        environment("3.11", platform)


def test_cuda_value_that_is_no_version_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="CUDA"):
        environment("3.11", "linux_x86_64", cuda="twelve")
    assert environment("3.11", "linux_x86_64", cuda="12.4").cuda == "12.4"
