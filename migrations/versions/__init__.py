"""Alembic versions, numbered: ``0001_subject.py`` holds revision ``0001``."""
