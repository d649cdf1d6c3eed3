"""Give advice: read projects, resolve stacks, score them and write reports.

The entry point is :func:`adviser.advise.advise`. Only ``answering`` and ``verification`` use
stores.
"""
