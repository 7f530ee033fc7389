"""`gpud sim`: looking at what a simulated node has done.

`devicelog` reads the log of its device process, `summary` counts, `table` and `picture` show it, `log` is the verb.
"""
