"""Raw SQL: every statement that the product runs, and the migrations that make the schema it runs against."""
