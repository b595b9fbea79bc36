"""The schema registry service: a Confluent-compatible REST API over one SQL store.

pyproject.toml has its layers, which import-linter holds.
"""
