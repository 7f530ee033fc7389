"""Which devices there are, and what the driver says of them."""
