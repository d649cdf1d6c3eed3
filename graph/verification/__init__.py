"""Compares the record with its documents.

Entry point: :func:`graph.verification.run.verify_record`.
"""
