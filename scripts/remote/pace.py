"""How often the script asks AWS, and how long it waits for answers, in seconds."""

POLL = 15.0  # between two looks at a running job
STATE = 5.0  # between two looks at an instance that starts or stops
COMMAND = 1.0  # between two looks at a command that was just sent
START = 900.0  # longest time until an instance runs and answers Systems Manager
END = 180.0  # longest time until an instance begins to stop
COMMAND_LIMIT = 900.0  # longest time that a command may run; each does little
DELIVERY_LIMIT = 120  # longest time until a command reaches the instance; AWS allows 30 s or more
PATIENCE = 600.0  # longest time without an answer after which the script gives up a running job
GRACE = 300.0  # from the time limit until the instance stops itself
RETRIES = 3  # how often a damaged payload is asked for again
ATTEMPTS = 8  # for every call to AWS, with pauses by botocore in between
