"""Databases of the run's PostgreSQL: copies of one that is migrated."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import sqlalchemy
from sqlalchemy import text

from common.settings import Settings
from graph.engine import relational_url

#: Migrated, without rows.
TEMPLATE = "thoth_template"

_numbers = itertools.count(1)


@contextmanager
def new_database(
    owner: sqlalchemy.Engine, settings: Settings, *, template: str = TEMPLATE
) -> Iterator[Settings]:
    """``settings`` with a database that no other test sees, for the length of the block.

    :param owner: PostgreSQL as its owner, outside transactions
    :param template: a database that nobody is connected to
    """
    name = f"thoth_test_{next(_numbers)}"
    with owner.connect() as connection:
        # Faster than by way of the log, where nothing is synced.
        copy = f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY"
        connection.execute(text(copy))
    try:
        yield with_database(settings, name)
    finally:
        with owner.connect() as connection:
            connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))


def with_database(settings: Settings, name: str) -> Settings:
    """``settings`` of another database of the same PostgreSQL, with its password in the URL."""
    url = relational_url(settings).set(database=name, drivername="postgresql")
    return replace(settings, database_url=url.render_as_string(hide_password=False))
