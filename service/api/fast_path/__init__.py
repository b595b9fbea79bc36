"""Answers without the app: an answer cache, and registrations that share a commit. Only `service.app` imports it."""
