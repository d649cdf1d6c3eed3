"""Locks: each format has one module, which reads a lock as :class:`LockEntry` objects.

Entry point: :func:`common.formats.locks.readers.reader_of`. Requirements files that serve as locks
are read by :mod:`common.formats.requirements_files`.
"""
