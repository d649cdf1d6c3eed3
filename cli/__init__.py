"""The command ``thoth``: one module for each group of commands, and their output.

:mod:`cli.start` is the console script; :mod:`cli.main` finds the commands, and turns errors into
exit codes.
"""
