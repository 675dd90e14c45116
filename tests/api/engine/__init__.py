"""The engine, over real sockets."""
