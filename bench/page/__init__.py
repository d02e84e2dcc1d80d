"""The results of a run as one HTML page: python -m bench.page hardware/ --out page.html

The page shows what a device measured beside what the simulator models for the same cases: times and
errors against N, a table of every case, missing cases with their reasons, parity, the environment,
and the log. It holds its pictures and styles, and a browser needs no network to show it.

    contents.py     reads the files of a run
    charts.py       the charts, which matplotlib draws
    tables.py       the tables
    html.py         the page, from its template
"""
