"""gpud: several jobs share one GPU, and the ones that matter stay fast."""

__version__ = "0.1.0"
