"""Reads inspections (results of jobs that measured a stack) in every layout ever published.

Entry point: :func:`ingest.inspections.pipeline.ingest_inspections`.
"""
