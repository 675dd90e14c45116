"""The demo and the local stack, as a person starts them."""
