"""Reads and writes of PostgreSQL, one module per subject."""
