"""The states of a job and of its sets, as the instance reports them."""

WAITING = "waiting"
RUNNING = "running"
FINISHED = "finished"
FAILED = "failed"
STOPPED = "stopped"
TIMED_OUT = "time limit"
COMPLETE = (FINISHED, FAILED)  # the set ran to its end, and --resume does not repeat it
