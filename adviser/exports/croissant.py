"""Describes the files of an export in Croissant 1.0, the format of data sets for machine learning.

See https://docs.mlcommons.org/croissant/docs/croissant-spec-1.0.html.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from adviser.exports.tables import ColumnType, ExportColumn, ExportTable
from common import __version__
from model.json_documents import as_json_time

#: Name of the description in the folder of an export.
CROISSANT_FILE = "croissant.json"

_PARQUET = "application/x-parquet"
_TERMS = {
    "citeAs": "cr:citeAs", "column": "cr:column", "conformsTo": "dct:conformsTo",
    "equivalentProperty": "cr:equivalentProperty", "extract": "cr:extract", "field": "cr:field",
    "fileObject": "cr:fileObject", "fileProperty": "cr:fileProperty", "fileSet": "cr:fileSet",
    "format": "cr:format", "includes": "cr:includes", "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath", "key": "cr:key", "md5": "cr:md5", "parentField": "cr:parentField",
    "path": "cr:path", "recordSet": "cr:recordSet", "references": "cr:references",
    "regex": "cr:regex", "repeated": "cr:repeated", "replace": "cr:replace",
    "samplingRate": "cr:samplingRate", "separator": "cr:separator", "source": "cr:source",
    "subField": "cr:subField", "transform": "cr:transform",
}  # fmt: skip
_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "dct": "http://purl.org/dc/terms/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    **_TERMS,
}
_DATA_TYPES = {
    ColumnType.TEXT: "sc:Text",
    ColumnType.CATEGORY: "sc:Text",
    ColumnType.JSON: "sc:Text",
    ColumnType.TEXTS: "sc:Text",
    ColumnType.TIME: "sc:DateTime",
    ColumnType.REAL: "sc:Float",
    ColumnType.REALS: "sc:Float",
    ColumnType.INTEGER: "sc:Integer",
    ColumnType.FLAG: "sc:Boolean",
}
_LISTS = (ColumnType.TEXTS, ColumnType.REALS)


def croissant_document(
    folder: Path, tables: Sequence[ExportTable], as_of: datetime
) -> dict[str, Any]:
    """The description of all files below ``folder``, with a record set for each table.

    :param as_of: time of the data
    """
    files = sorted(folder.rglob("*.parquet"))
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "name": "thoth-export",
        "description": "Measurements of software stacks, and what is known of their packages.",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "version": __version__,
        "datePublished": as_json_time(as_of),
        "isLiveDataset": False,
        "distribution": [
            *(_file_set(folder, table) for table in tables),
            *(_file_object(folder, path) for path in files),
        ],
        "recordSet": [_record_set(table) for table in tables],
    }


def _file_set(folder: Path, table: ExportTable) -> dict[str, Any]:
    # Readers disagree whether ** also means no folder at all.
    nested = any(path.is_dir() for path in (folder / table.name).iterdir())
    return {
        "@type": "cr:FileSet",
        "@id": f"{table.name}-files",
        "name": f"{table.name}-files",
        "description": f"The files of the table {table.name}.",
        "encodingFormat": _PARQUET,
        "includes": f"{table.name}/{'*/' if nested else ''}*.parquet",
    }


def _file_object(folder: Path, path: Path) -> dict[str, Any]:
    place = path.relative_to(folder).as_posix()
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {
        "@type": "cr:FileObject",
        "@id": place,
        "name": place,
        "contentUrl": place,
        "contentSize": f"{path.stat().st_size} B",
        "encodingFormat": _PARQUET,
        "sha256": digest,
    }


def _record_set(table: ExportTable) -> dict[str, Any]:
    return {
        "@type": "cr:RecordSet",
        "@id": table.name,
        "name": table.name,
        "description": table.description,
        "field": [_field(table, column) for column in table.columns],
    }


def _field(table: ExportTable, column: ExportColumn) -> dict[str, Any]:
    unit = f" Unit: {column.unit}." if column.unit else ""
    return {
        "@type": "cr:Field",
        "@id": f"{table.name}/{column.name}",
        "name": column.name,
        "description": f"{column.description}{unit}",
        "dataType": _DATA_TYPES[column.type],
        **({"repeated": True} if column.type in _LISTS else {}),
        "source": {
            "fileSet": {"@id": f"{table.name}-files"},
            "extract": {"column": column.name},
        },
    }
