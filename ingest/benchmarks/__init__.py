"""Recognises result files of other benchmark systems.

Entry point: :func:`ingest.benchmarks.systems.system_of`.
"""
