"""The planner decides what to run: recipes and tables. Nothing in this folder imports torch."""
