"""Answers without the app: an answer cache, and registrations that share a commit. Only `server.app` imports it.

What an answer was made from decides when it is dropped: docs/decisions/0013.
"""
