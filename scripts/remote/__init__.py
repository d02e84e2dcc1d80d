"""Parts of scripts/hw_bench.py: running jobs on an EC2 instance through Systems Manager."""
