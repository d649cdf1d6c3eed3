"""How good measurements are: spread, repetitions, drift, and performance over a parameter.

Entry point: :func:`adviser.quality.reports.quality_report`. Nothing here does I/O.
"""
