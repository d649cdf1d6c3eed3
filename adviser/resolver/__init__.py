"""The exact resolver: find the best stack for a request and prove it, or explain why there is none.

``resolve.resolve`` is the entry point. ``admission`` turns a snapshot and a request into the
versions that may be chosen, ``compression`` reduces them to a small integer problem, and branch
and bound or CP-SAT solves it. ``checker`` checks the result without using any of this code.
"""
