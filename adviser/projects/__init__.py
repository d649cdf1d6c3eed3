"""Read manifests and locks of projects: Pipfile, pyproject.toml, requirements files and locks.

``parsing.parse_project`` is the entry point: it takes the content of files by name and returns a
:class:`~adviser.projects.project.Project`. It opens no files.
"""
