"""Old specifiers are read as uv reads them."""

from __future__ import annotations

import pytest
from packaging.specifiers import InvalidSpecifier

from model.packages.releases import parse_requirement, specifier_set


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (">=1.19.*", ">=1.19"),
        ("< 3.4.*, >=2.7", "<3.4,>=2.7"),
        (">=7.2.0<8.0.0", ">=7.2.0,<8.0.0"),
        ("!=~5.0,>=4.12", "!=5.0.*,>=4.12"),
        (">=2.7,!=3.0*", ">=2.7,!=3.0.*"),
        (">=3.6,", ">=3.6"),
        (">dev", ">0.0.0.dev0"),
        (">=9.0a1.0", ">=9.0a1"),
        (">=3.6', !=3.7.*'", ">=3.6,!=3.7.*"),
        (">=1.2.*<2.*',", ">=1.2,<2"),
    ],
)
def test_a_specifier_is_read_leniently_also_within_a_requirement(written: str, read: str) -> None:
    assert specifier_set(written) == specifier_set(read)
    for raw in (f"boto3{written}", f"a2[x.y] ({written}); python_version >= '3.6'"):
        requirement = parse_requirement(raw)
        assert specifier_set(requirement.specifier) == specifier_set(read)
        assert requirement.name in ("boto3", "a2")
        assert requirement.extras == (("x-y",) if "[" in raw else ())
        assert requirement.marker == ('python_version >= "3.6"' if "[" in raw else None)
    assert parse_requirement(f"a {read}").problem is None


def test_what_was_repaired_is_said() -> None:
    requirement = parse_requirement("numpy (>=1.19.*)")
    assert requirement.problem is not None
    assert "'numpy (>=1.19.*)' is not valid and is read as numpy>=1.19;" in requirement.problem


@pytest.mark.parametrize("raw", ["numpy>=x.*", "numpy ~> 1", "a b", "a @ ", "numpy=='"])
def test_nothing_is_guessed_of_other_text(raw: str) -> None:
    assert parse_requirement(raw).name is None
    with pytest.raises(InvalidSpecifier):
        specifier_set(">=x.*")
