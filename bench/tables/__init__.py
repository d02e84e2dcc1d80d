"""Tables of modelled times in Markdown: python -m bench.tables --help

    planned.py     plans of transforms, and how their times are written
    prices.py      the tables of README.md and docs/planner.md
    how_fast.py    the tables of docs/how_fast.md: kernels and calls beside a CPU and a GPU
    floors.py      times over the floor of DMA, with their components and the project's goals
    row_guard.py   what keeping rows independent costs on trn1
    bloom.py       bloom of the pictures of an article
    article.py     the chain of launches of the article "FFT is a GEMM", beside one launch

The times are modelled, not measured, but for what a heading says. Launches are not counted where
no heading says so.
"""
