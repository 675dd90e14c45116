"""The demo: real replicas on a real stack, one of them killed, their effects counted on the chain."""
