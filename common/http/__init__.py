"""HTTP requests to untrusted servers; entry point: :class:`common.http.fetching.Fetcher`."""
