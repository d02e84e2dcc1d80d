"""What a transform over many devices would take: its route, its legs, the network and prices."""
