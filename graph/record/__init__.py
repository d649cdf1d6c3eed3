"""Queries that read and write the record (PostgreSQL), one module for each subject.

Callers own the transaction. Start with :mod:`graph.record.documents`, because every row names its
document, and :mod:`graph.record.inspections`.
"""
