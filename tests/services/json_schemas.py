"""Validation against JSON schemas.

The libraries take seconds to load, and each process of a run collects all tests: they are loaded
by the tests that need them.
"""

from typing import Any


def check_schema(schema: Any) -> None:
    """Fail unless ``schema`` is a valid JSON schema."""
    import jsonschema

    jsonschema.Draft202012Validator.check_schema(schema)


def validate(document: Any, schema: Any) -> None:
    """Fail unless ``document`` matches ``schema``."""
    import jsonschema

    jsonschema.Draft202012Validator(schema).validate(document)


def validate_manifest(manifest: Any, version: str | None = None) -> None:
    """Fail unless Kubernetes accepts ``manifest``; by default, its newest known version."""
    import kubernetes_validate

    known = version or kubernetes_validate.latest_version()
    kubernetes_validate.validate(manifest, known, strict=True)
