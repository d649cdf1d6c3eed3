"""Inspections that were measured, for the demo."""
