"""PostgreSQL and Redis; knows no product table."""
