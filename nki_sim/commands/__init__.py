"""The command ``nki-sim`` with its commands run, lint, profile and report, one module for each.

``settings`` has the options of the simulated chip, ``kernel_file`` imports a user's file,
``outputs`` writes recorded timelines, and ``findings`` and ``sarif`` write what was found. Where a
command cannot do its work, functions of all of them raise CommandError.
"""
