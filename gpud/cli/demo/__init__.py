"""`gpud demo`: two real programs on one GPU; alone, shared without gpud, shared under it; a table and a picture.

`runner` starts the programs, `devicelog` reads what the simulated device did, `figures` computes, `table` and `picture`
show.
"""
