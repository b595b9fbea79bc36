"""Pages at `/ui`, rendered here, without scripts: a client of the REST API with the browser's credentials."""
