"""Results of other benchmark systems: a reader for each system, and the pipeline that stores them.

Entry point: :func:`ingest.benchmarks.pipeline.ingest_benchmarks`. A new system is one function
in ``readers`` and one line in :mod:`ingest.benchmarks.systems`.
"""
