"""`tools/on_gpu`: a day with a GPU, as steps that are independent, bounded in time, and recorded whatever they do.

Standard library only: most of it runs before gpud is built. `guard` runs one command and lets nothing of it outlive it;
`runner` runs steps under a budget; `record` and `table` write what came of them; `steps` says which there are.
"""
