"""Which settled changes of performance the measurements show, without I/O.

Entry point: :func:`adviser.changes.release_steps.new_entries`.
"""
