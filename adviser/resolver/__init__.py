"""The exact resolver: the best stack that meets a request, with the proof, or why there is none.

A request and a snapshot make a :class:`~adviser.resolver.universe.Universe`, which says what may
be chosen; compression makes it a small problem of integers; CP-SAT finds its optimum and proves
it; and :func:`adviser.resolver.checker.check_stack` believes neither of them.
"""
