"""The nightly loop: from a new release to changed advice, with the evidence.

Entry point: :func:`loop.night.run_night`.
"""
