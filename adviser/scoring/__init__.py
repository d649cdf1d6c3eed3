"""The statistics of noisy measurements, and what they and metadata say of a request.

Small pure functions with their sources; :func:`adviser.scoring.assess.assess` puts them together.
"""
