"""Measurements: inspections, hardware classes, units, stability of jobs, and evidence."""
