"""What a kernel holds: views of tensors, registers, and integers known at run time only."""
