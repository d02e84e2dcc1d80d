"""The functions that users call, and the checks of their arguments."""
