"""Background jobs: a queue in PostgreSQL, its tasks and the worker process.

Entry point: :func:`api.jobs.worker.run_worker`.
"""
