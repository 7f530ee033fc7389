"""`gpud top`: a screen of the node, a client of the daemon's control socket and nothing else.

`model` applies steps of a feed to what is known; `draw` makes lines of text of it, without a terminal; `widgets` and
`screens` show these lines in Textual, and change only what has changed.
"""
