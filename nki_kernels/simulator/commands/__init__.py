"""The command ``nki-sim``: run, lint, profile and report, one module each.

``arguments`` has the parsers, ``kernel_file`` imports a user's file, ``outputs`` writes what was
recorded, ``findings`` and ``sarif`` say what was found where.
"""
