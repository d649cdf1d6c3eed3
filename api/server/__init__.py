"""The HTTP server process: gunicorn, TLS, threads for requests and supervised children.

Entry point: :func:`api.server.http_server.serve`.
"""
