"""How often AWS is asked and how long answers are awaited, in seconds."""

POLL = 15.0  # between two looks at a running job
STATE = 5.0  # between two looks at an instance that starts or stops
COMMAND = 1.0  # between two looks at a command that was just sent
START = 900.0  # longest that an instance may take to run and to answer Systems Manager
END = 180.0  # longest that an instance may take to begin to stop
COMMAND_LIMIT = 900.0  # longest that one command may take; each does little
DELIVERY_LIMIT = 120  # longest that a command may take to reach the instance; AWS allows 30 or more
PATIENCE = 600.0  # longest that a running job may be out of reach before it is given up
GRACE = 300.0  # from the time limit to the moment at which the instance stops itself
RETRIES = 3  # times that a damaged payload is asked for again
ATTEMPTS = 8  # at every call of AWS, with the pauses of botocore in between
