"""Rows in typed columns → Craft messages, for numba."""
