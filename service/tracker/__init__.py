"""Follows DDL and resolved events into table histories."""
