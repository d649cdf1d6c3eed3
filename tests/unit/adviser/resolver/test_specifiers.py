"""Which of many versions a specifier admits is what it says of each."""

from __future__ import annotations

from itertools import combinations

import pytest

from adviser.resolver.specifiers import admits, members, places

VERSIONS = (
    "1!0.5", "3.0", "2.1.dev1", "2.0.post1", "2.0+local.1", "2.0", "2.0.0rc1", "2.0.dev3", "1.10",
    "1.4.2.post1.dev2", "1.4.2", "1.4.1", "1.4", "1.4a1", "1.0", "2004b-final", "nightly",
)  # fmt: skip
SPECIFIERS = (
    "", ">=1.4", ">1.4", "<2", "<2.0rc1", "<=2.0", "==2.0", "==2.0+local.1", "!=2.0", "==1.4.*",
    "!=1.4.*", "~=1.4.1", "~=1.4", ">2.0.dev1", "===2.0", "===nightly", ">=1!0", ">2.0",
)  # fmt: skip


@pytest.mark.parametrize(
    "specifier", [*SPECIFIERS, *map(",".join, combinations(SPECIFIERS[1:], 2))]
)
def test_a_requirement_has_the_versions_that_it_admits(specifier: str) -> None:
    admitted = [place for place, it in enumerate(VERSIONS) if admits(specifier, it)]
    assert places(members(specifier, VERSIONS)) == admitted
