"""Comparisons of many runs: studies, their cells and arms, statistics, and the report page."""
