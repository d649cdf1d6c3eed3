"""The command ``thoth``: one module for each group of commands, and what they print.

:mod:`cli.main` is the entry point: it finds the commands, and turns errors into exit codes.
"""
