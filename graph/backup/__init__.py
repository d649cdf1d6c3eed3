"""Backups of the record: :func:`graph.backup.creation.create_backup` and its opposite,
:func:`graph.backup.restoration.restore_backup`; :mod:`graph.backup.archive` is the file format."""
