"""Pages at `/ui`, rendered here, without scripts: subjects, tables, explaining a message, lineage.

They are a client of the service's own REST API, asked in this process with the credentials that the browser sent. So
they can show and do what that user could by the API, and nothing else.
"""
