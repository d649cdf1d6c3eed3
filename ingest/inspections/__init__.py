"""Inspections: results of jobs that measured a stack, in every layout that was ever published.

Entry point: :func:`ingest.inspections.pipeline.ingest_inspections`.
"""
