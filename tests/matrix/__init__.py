"""The exactness matrix: an event through every pair of formats, what is lost on the way, and the page that says so."""
