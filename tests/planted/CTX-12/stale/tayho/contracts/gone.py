"""What gone shows the other contexts. There is no such context."""
