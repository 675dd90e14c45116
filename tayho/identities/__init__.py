"""Who may do what in the database: the logins of the processes, made and proven by `tayho db` (OPS-2)."""
