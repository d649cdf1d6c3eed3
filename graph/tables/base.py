"""What every table shares."""

from __future__ import annotations

from datetime import datetime
from typing import cast

from sqlalchemy import DateTime, MetaData, Table, Text
from sqlalchemy.orm import DeclarativeBase

#: Constraints are named by rule, so that a migration can drop what another made.
_NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    """Base of all tables; text has no length limit and every time has a zone."""

    metadata = MetaData(naming_convention=_NAMES)
    type_annotation_map = {str: Text(), datetime: DateTime(timezone=True)}  # noqa: RUF012


def table_of(model: type[Base]) -> Table:
    """The table behind a mapped class, for statements on whole tables."""
    return cast(Table, model.__table__)
