"""Plots as SVG, made without scripts: they work in pages, in reports and on paper.

Colours are classes of the style sheet of the page; every mark has its value as a tooltip, and
every plot has a title for screen readers.
"""
