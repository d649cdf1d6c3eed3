"""Shared by all rooms: errors, settings, logs, domain types, formats, HTTP, package indexes."""

__version__ = "0.2.0"
