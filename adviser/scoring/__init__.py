"""Score versions by measurements, vulnerabilities and release metadata, without I/O.

All functions are pure, and their sources are cited. The entry point is
:func:`adviser.scoring.assess.assess`. ``docs/statistics.md`` explains the rules.
"""
