"""Rules of the registry, those of confluentinc/schema-registry 8.5: values in, values out, without HTTP or SQL."""
