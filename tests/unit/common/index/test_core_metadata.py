"""Core metadata as old and new tools wrote it."""

import time
from itertools import product

import pytest

from common.formats.core_metadata import parse_core_metadata

HEAD = "Metadata-Version: 2.4\nName: Parrot\nVersion: 1.0\n"


def test_core_metadata_description_is_not_read_as_fields() -> None:
    read = parse_core_metadata(
        f"{HEAD}Requires-Dist: seed>=1\nProvides-Extra: x\n\nRequires-Dist: b"
    )
    assert (read.name, read.version, read.requires_dist) == ("Parrot", "1.0", ("seed>=1",))
    assert read.provides_extra == ("x",)


@pytest.mark.parametrize(
    ("lines", "license"),
    [
        ("License: MIT\nLicense-Expression: Apache-2.0\n", "Apache-2.0"),
        ("License: BSD\n", "BSD"),
        ("License: UNKNOWN\nClassifier: License :: OSI Approved :: MIT License\n", "MIT License"),
        (f"License: {'words ' * 100}\n", None),
    ],
)
def test_license_is_a_short_name_and_not_the_license_text(lines: str, license: str | None) -> None:
    assert parse_core_metadata(HEAD + lines).license == license


@pytest.mark.parametrize(
    "text", ["", "\n\n", "no fields", "\x00\x01", "Name", ":" * 1000, "a: b\n c"]
)
def test_core_metadata_without_fields_has_no_name(text: str) -> None:
    assert parse_core_metadata(text).name is None


def test_first_of_two_equal_core_metadata_fields_counts() -> None:
    read = parse_core_metadata(f"{HEAD}Name: crow\nRequires-Python: >=3.8\nRequires-Python: >=2\n")
    assert (read.name, read.requires_python) == ("Parrot", ">=3.8")


@pytest.mark.parametrize(
    ("version", "dynamic", "static"),
    [("1.2", "", False), ("2.2", "", True), ("2.10", "", True), ("2.3", "requires-DIST", False)],
)
def test_requirements_are_static_only_from_metadata_version_2_2_on(
    version: str, dynamic: str, static: bool
) -> None:
    line = f"Dynamic: {dynamic}\n" if dynamic else ""
    assert parse_core_metadata(f"Metadata-Version: {version}\n{line}").is_static is static


def test_unknown_core_metadata_fields_are_parsed_in_linear_time() -> None:
    names = (f"X-{number}" for number in range(60_000))
    cases = (
        "".join(it) for it in product(*zip("supported-platfo", "SUPPORTED-PLATFO", strict=True))
    )
    started = time.process_time()
    read = parse_core_metadata(
        HEAD + "".join(f"{it}: 1\n" for it in (*names, *cases)) + "REQUIRES-dist: seed\n more\n"
    )
    assert read.requires_dist == ("seed\n more",)
    assert time.process_time() - started < 3


def test_core_metadata_fields_end_at_the_first_invalid_line() -> None:
    assert parse_core_metadata(f"{HEAD}oops\nRequires-Dist: seed\n").requires_dist == ()


def test_metadata_version_of_thousands_of_digits_is_read() -> None:
    digits = "9" * 5_000
    assert not parse_core_metadata(f"Metadata-Version: {digits}.1\n").is_static
    assert not parse_core_metadata(f"Metadata-Version: 2.{digits}\n").is_static
