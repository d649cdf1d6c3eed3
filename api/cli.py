"""The service's commands."""

from __future__ import annotations

__all__: list[str] = []
