"""The HTTP faces. Importing one costs the web framework, so a command without one does not."""
