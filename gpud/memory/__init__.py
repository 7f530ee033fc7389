"""Device memory that can leave the device: who holds what, what must leave for whom, and where it goes."""
