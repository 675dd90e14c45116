"""The job kinds of the reference protocol, one file a role: docs/roles.md."""
