"""What kernels are composed of: operations, schedules, tables, and what they ask about the chip."""
