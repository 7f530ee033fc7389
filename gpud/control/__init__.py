"""The control socket: what it speaks, its server, its client."""
