"""Pure types and rules, without I/O: a field of the domain is declared here, once.

``packages`` holds releases, wheels, environments, candidates and the snapshot; ``measurements``
inspections, hardware, units and evidence. Other rooms read, store and show them.
"""
