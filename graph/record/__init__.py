"""Queries that read and write the record (PostgreSQL), one module for each subject.

Callers own the transaction. To read the code, start with :mod:`graph.record.documents`, because
every row names its document; then read :mod:`graph.record.inspections`.
"""
