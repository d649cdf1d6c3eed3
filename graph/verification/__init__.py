"""Compares the rows of the record with the documents that they were made from.

Entry point: :func:`graph.verification.run.verify_record`.
"""
