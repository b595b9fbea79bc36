"""Whole jobs without a stream: in this process, explain, verify, replay, the demo. Arguments belong in `commands`."""
