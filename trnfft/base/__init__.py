"""What every room may use: settings, checks, the cache, memory, devices, private names of torch."""
