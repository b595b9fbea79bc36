"""Statements → what they make of a catalog's tables. Pure: a catalog in, another out; nothing here reads SQL."""
