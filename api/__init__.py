"""The HTTP API and the jobs behind it: advice, package data, inspections and queries.

Entry points: :func:`api.app.create_app` and :func:`api.jobs.worker.run_worker`.
"""
