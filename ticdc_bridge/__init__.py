"""The command `ticdc-bridge`, and what keeps our packages apart from other people's of the same names.

Standard library only, and nothing of ours is imported at the top of a file: help and completion answer at once, with
whichever extras are installed.
"""

DISTRIBUTION = "ticdc-bridge"  # what packages.py looks for in a package of ours
__version__ = "0.1.0"  # pyproject.toml has the same; a test compares them
