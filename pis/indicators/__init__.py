"""Scripts that measure one library each time they run.

Each script is sent to the environment that it measures as one text (see :mod:`pis.bundle`). So
these modules use only the standard library, run on Python 3.8, have no names in common, and import
what they measure inside functions.
"""
