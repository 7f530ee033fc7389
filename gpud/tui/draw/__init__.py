"""Lines of text, made of the model. No terminal, no clock: the same model gives the same lines."""
