"""What is served: a module for each kind of address, with its part of the route table."""
