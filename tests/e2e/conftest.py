"""Fixtures of the tests that use the product by its commands."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services.installation import Installation


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Installation]:
    installation = Installation(tmp_path / "home")
    yield installation
    installation.run("thoth", "down")
