"""The database logins of the processes: what each may, and no more."""
