"""Declarations of plugins: what a package outside gpud offers to policies. `gpud.engine.plugin_host` runs them."""
