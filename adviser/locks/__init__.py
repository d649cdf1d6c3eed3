"""Write stacks as lock files for installers; equal stacks give identical bytes.

``formats.render_lock`` is the entry point. :mod:`adviser.projects.locks` reads locks.
"""
