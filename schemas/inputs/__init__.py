"""Inputs from files and settings: lines of messages, definitions, Kafka's settings, claim checks."""
