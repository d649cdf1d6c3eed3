"""Dependency Monkey: generate valid stacks to inspect, without I/O.

Entry points: :class:`adviser.monkey.space.StackSpace` and :mod:`adviser.monkey.strategies`.
"""
