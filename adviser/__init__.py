"""Give advice: read projects, resolve stacks, score them and write reports.

The entry point is :func:`adviser.advise.advise`. Only :mod:`adviser.answering`,
:mod:`adviser.exports` and :mod:`adviser.record_verifier` access databases.
"""
