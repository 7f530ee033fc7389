"""The brain: every decision is `react(state, event, now)`; `service` is the shell that carries decisions out."""
