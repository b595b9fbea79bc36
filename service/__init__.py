"""The schema registry service: a Confluent-compatible REST API over one SQL store."""
