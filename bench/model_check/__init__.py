"""Published measurements of kernels on Trainium, and the same kernels in the simulator.

`published_measurements` holds the figures with their sources, `published_kernels` the kernels,
`modelled_measurements` their modelled times: of AWS's documentation. `device_records`,
`device_kernels` and `modelled_records` are the same for small kernels that others timed,
`labs_records`, `labs_kernels` and `modelled_labs` for whole ones; `launch_overhead` predicts whole
transforms of the seed article. `points` brings both sides together, `report` and `picture` show
them.
"""
