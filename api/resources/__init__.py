"""Our own resources, one module per subject, below ``/api/v2``."""

from __future__ import annotations

from flask_smorest import Blueprint


def blueprints() -> tuple[Blueprint, ...]:
    """Everything that is served below ``/api/v2``."""
    return ()
