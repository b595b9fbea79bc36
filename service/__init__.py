"""The schema registry service: a Confluent-compatible REST API over one SQL store.

Layers, top to bottom (held by import-linter): app > api | store > deps > registry > settings.
"""
