"""Schemas that clients and analysts rely on, as golden files: a change is seen as a difference.

``THOTH_WRITE_GOLDEN=1 pytest tests/unit/test_published_schemas.py`` writes the files again.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from adviser.exports.tables import TABLES
from api.app import create_app
from common.settings import Settings
from tests.factories.golden import compare_with_golden

_DIGEST = re.compile("sha256:[0-9a-f]{64}")


def compact(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return _DIGEST.sub("sha256:…", text).replace("#/components/schemas/", "")


def operations(paths: dict[str, Any]) -> Iterator[str]:
    """A line for each operation, parameter, body and response."""
    for path, item in sorted(paths.items()):
        for method, operation in sorted(item.items()):
            if method == "parameters":
                yield f"{path} {compact(operation)}"
                continue
            name = f"{method.upper()} {path}"
            responses = operation["responses"]
            yield f"{name} {' '.join(sorted(responses))} {compact(operation['security'])}"
            for parameter in sorted(map(compact, operation.get("parameters", []))):
                yield f"{name} {parameter}"
            if "requestBody" in operation:
                yield f"{name} {compact(operation['requestBody'])}"
            for status, response in sorted(responses.items()):
                if "content" in response:
                    yield f"{name} {status} {compact(response['content'])}"


def components(schemas: dict[str, Any]) -> Iterator[str]:
    """A line for each property of each component; required ones end with a star."""
    for name, schema in sorted(schemas.items()):
        required = schema.get("required", ())
        for field, value in sorted(schema.get("properties", {}).items()):
            yield f"{name}.{field}{'*' if field in required else ''} {compact(value)}"


def test_openapi_document_equals_the_published_file(tmp_path: Path) -> None:
    nowhere = {
        "THOTH_HOME": str(tmp_path),
        "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none",
        "GRAPH_URL": "bolt://127.0.0.1:1",
    }
    client = create_app(Settings.from_env(nowhere)).test_client()
    document = client.get("/openapi.json").get_json()
    lines = (*operations(document["paths"]), *components(document["components"]["schemas"]))
    compare_with_golden("schemas/openapi.txt", "\n".join(lines))


def test_export_columns_equal_the_published_list() -> None:
    from adviser.exports.arrow_files import schema_of_table

    def lines() -> Iterator[str]:
        for table in TABLES.values():
            schema = schema_of_table(table)
            yield f"{table.name}: {schema.metadata[b'description'].decode()}"
            for field in schema:
                metadata = {key.decode(): it.decode() for key, it in field.metadata.items()}
                yield f"{table.name}.{field.name} {field.type} {compact(metadata)}"

    compare_with_golden("schemas/parquet.txt", "\n".join(lines()))
