"""Tables of modelled times in Markdown: python -m bench.tables NAME

    planned.py     plans of transforms, and how their times are written
    prices.py      the tables of README.md and docs/planner.md
    how_fast.py    the tables of docs/how_fast.md: kernels and calls beside a CPU and a GPU
    row_guard.py   what keeping rows independent costs on trn1
    bloom.py       bloom of the pictures of an article

The times are modelled, not measured, but for what a heading says. Launches are not counted where
no heading says so.
"""
