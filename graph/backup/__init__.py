"""Backups of the record; entry points: the functions of :mod:`graph.backup.create_and_restore`."""
