"""Where schemas and definitions come from: registries, histories, files; over HTTP."""
