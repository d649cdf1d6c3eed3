"""Scripts that measure one library each time they run.

They travel into the environments that they measure as one text (see :mod:`pis.bundle`), so these
modules use the standard library alone, run on Python 3.8, share one namespace without a clash,
and import what they measure inside functions.
"""
