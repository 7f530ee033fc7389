"""The edge to C: pages shared with the hooks, and the sessions with them."""
