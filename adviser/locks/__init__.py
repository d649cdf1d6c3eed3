"""Chosen stacks written as locks that installers take, byte for byte the same each time.

``rendering.render_lock`` writes one of the formats of :class:`adviser.locks.lock_model.LockFormat`.
Locks are read by :mod:`adviser.projects.locks`.
"""
