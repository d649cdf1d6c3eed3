"""Which errors are the host's."""

from __future__ import annotations

import errno

import pytest

from model.measurements.job_stability import is_host_build, reason_of


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.ENOSPC, "full"), "disk-full"),
        (OSError(errno.EROFS, "read-only"), "host-failed"),
        (OSError(errno.ETIMEDOUT, "the file server does not answer"), "host-failed"),
        (TimeoutError("timed out"), "host-failed"),
        (OSError(errno.ENOENT, "missing"), None),
        (ValueError("wrong"), None),
    ],
)
def test_the_kind_of_an_error_decides_whose_it_is(error: Exception, reason: str | None) -> None:
    assert reason_of(error) == reason


def test_a_build_that_timed_out_says_nothing_of_the_stack() -> None:
    assert is_host_build("timed-out", "uv did not finish within 3600 s")
