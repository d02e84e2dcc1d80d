"""The modelled times of a launch: when each instruction runs, and why not earlier."""
