"""The record: everything that reads and writes PostgreSQL, one module for each subject.

Callers own the transaction. Start with :mod:`graph.record.documents` (every row names the document
that it comes from) and :mod:`graph.record.inspections`.
"""
