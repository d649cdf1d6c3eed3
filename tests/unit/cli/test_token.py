"""Tokens on the command line."""

from __future__ import annotations

import pytest

from cli.access import duration
from model.errors import InvalidArgument


@pytest.mark.parametrize("text", ["", "30", "d", "0d", "-1d", "1.5h", "30 d", "99999w", "１d"])
def test_a_duration_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="--expires"):
        duration(text)
