"""Errors that tests expect, by type and by what they carry."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def raised(
    error: type[Exception], **attributes: object
) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """Check that an error is raised, and attributes of it such as its reason and its field."""
    with pytest.raises(error) as caught:
        yield caught
    assert {name: getattr(caught.value, name) for name in attributes} == attributes
