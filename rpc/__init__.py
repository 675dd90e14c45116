"""EVM JSON-RPC; knows no database."""
