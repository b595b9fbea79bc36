"""Measurements that back the project's figures: `python -m benchmarks --list` (docs/benchmarks.md)."""
