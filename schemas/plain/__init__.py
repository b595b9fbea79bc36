"""The plain form: change events as lines of JSON, for people and files. No wire format."""
