"""Results of other benchmarks; :mod:`ingest.benchmarks.systems` recognises their files."""
