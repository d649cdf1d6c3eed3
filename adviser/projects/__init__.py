"""What people ask for: manifests and locks of projects, read into one form.

``parsing.parse_project`` takes the content of files by name and gives a
:class:`~adviser.projects.project.Project`; it opens nothing itself.
"""
