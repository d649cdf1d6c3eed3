"""Score versions by measurements, vulnerabilities and release metadata, without I/O.

Pure functions with cited sources. The entry point is :func:`adviser.scoring.assess.assess`.
``docs/statistics.md`` explains the rules.
"""
