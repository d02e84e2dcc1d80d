"""Published measurements of kernels on Trainium, and the same kernels in the simulator.

`published_measurements` holds the figures with their sources, `published_kernels` the kernels,
`modelled_measurements` their modelled times; `launch_overhead` predicts whole transforms of the
seed article. `points` brings both sides together, `report` and `picture` show them.
"""
