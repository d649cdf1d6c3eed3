"""Answers that are broken in a way that nobody thought of."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from common.errors import IndexFault, IndexProblem
from common.indexes.spans import MissingSpan

logger = logging.getLogger(__name__)


@contextmanager
def as_malformed(what: str) -> Iterator[None]:
    """Blame the answer for values that its parsers cannot take, and log where they could not.

    Each known case is seen to where it arises; one index must not end a crawl of many by
    the next. Errors of other types are our own and pass.

    :raises IndexProblem: ``malformed``
    """
    try:
        yield
    except (ValueError, OverflowError, MissingSpan) as error:
        kind = type(error).__name__
        logger.exception("answer_not_foreseen", extra={"what": what, "error": kind})
        raise IndexProblem(IndexFault.MALFORMED, f"{what} cannot be read: {kind}") from error
