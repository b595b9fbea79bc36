"""The commands of the service: a file a command, with its options and what it prints.

What a command does belongs in the folder of its subject (`migration`, `tracker`, `ddl_check`, `store`); answers to HTTP
requests belong in `service.api`.
"""
