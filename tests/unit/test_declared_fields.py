"""Schemas and documents that follow from declared fields."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Annotated, Any

import pytest
from marshmallow import ValidationError
from sqlalchemy import Column, Select

from api.http.schema_fields import schema_of
from graph.record.inspections import InspectionHead, select_inspections
from graph.record.observations import RecordedObservation, select_observations
from graph.record.release_queries import VersionDetail, select_versions
from graph.record.vulnerabilities import VulnerabilityHead, select_vulnerabilities
from model.declared_fields import Field, declared_fields, document_of, public, unbounded


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Wheel:
    size: Annotated[float, unbounded("Diameter.", 0.7, unit="m")]
    secret: str = "hidden"


@dataclass(frozen=True)
class Bicycle:
    """``secret`` has no declaration, ``wheels`` has that of its type."""

    name: Annotated[str | None, public("Name; null if it has none.")]
    colour: Annotated[Colour, Field("Colour.")]
    wheels: tuple[Wheel, ...]
    parts: Annotated[Mapping[str, int], Field("Number of parts.")]
    secret: str = "hidden"

    @property
    def heavy(self) -> Annotated[bool, Field("Whether it is heavy.")]:
        return sum(self.parts.values()) > 3


BICYCLE = Bicycle(None, Colour.BLUE, (Wheel(0.7), Wheel(math.inf)), {"chain": 1})


def test_document_contains_only_declared_fields_and_properties() -> None:
    names = [it.name for it in declared_fields(Bicycle)]
    assert names == ["name", "colour", "wheels", "parts", "heavy"]
    assert [it.name for it in declared_fields(Bicycle) if it.declared.public] == ["name"]


def test_infinite_number_becomes_null_in_a_document() -> None:
    assert document_of(BICYCLE) == {
        "name": None,
        "colour": "blue",
        "wheels": [{"size": 0.7}, {"size": None}],
        "parts": {"chain": 1},
        "heavy": False,
    }


def test_api_schema_follows_the_declared_fields_of_a_dataclass() -> None:
    schema = schema_of("Bicycle", Bicycle)()
    document = document_of(BICYCLE)
    assert schema.dump(document) == document
    assert schema.fields["name"].allow_none
    assert schema.fields["wheels"].inner.schema.fields["size"].allow_none
    assert not schema.fields["parts"].allow_none
    with pytest.raises(ValidationError) as error:
        schema.load({**document, "colour": "green"})
    assert "colour" in error.value.messages_dict


@pytest.mark.parametrize(
    ("query", "view", "others"),
    [
        (select_inspections(), InspectionHead, set()),
        (select_observations(), RecordedObservation, set()),
        (select_versions(), VersionDetail, {"requirements"}),
        (select_vulnerabilities(), VulnerabilityHead, set()),
    ],
)
def test_view_query_selects_each_field_with_its_nullability(
    query: Select[Any], view: type, others: set[str]
) -> None:
    selected = query.selected_columns
    assert set(selected.keys()) == {it.name for it in fields(view)} - others
    for field in declared_fields(view):
        column = getattr(selected.get(field.name), "element", None)
        if isinstance(column, Column):
            assert field.optional or not column.nullable, field.name
