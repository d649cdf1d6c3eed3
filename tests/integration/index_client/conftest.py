"""An index of our own that is well behaved, and settings that name it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from common.settings import Settings
from tests.services.index import Index, package_index
from tests.services.index_client import settings_for


@pytest.fixture
def index() -> Iterator[Index]:
    with package_index(protected=False, json=True, ranges=True, validators=True) as served:
        yield served


@pytest.fixture
def settings(tmp_path: Path, index: Index) -> Settings:
    return settings_for(index, tmp_path)
