"""Find the release that changed a rate, with few measured jobs and without I/O.

The entry points are :func:`adviser.bisect.search.find_step` for the releases of one package, and
:func:`adviser.bisect.series.path_between` for two locks.
"""
