"""What all other rooms of the simulator build on: names, types and rules of the API, and files."""
