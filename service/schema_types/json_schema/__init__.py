"""JSON Schema: canonical text, and a model of what a schema allows for the compatibility rules."""
