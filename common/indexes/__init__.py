"""Package indexes: which there are, and how one is asked.

``configured`` knows the indexes of this machine, ``client`` asks one, ``pages`` and
``core_metadata`` say what it answered.
"""
