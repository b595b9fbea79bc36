"""Tables, values, change events, errors and options: the words that everything else is said in.

No format, no parser, nothing that reads a file belongs here; it imports nothing of schemas.
"""
