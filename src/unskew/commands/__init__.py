"""What the command line does, a module a command where it is more than a few lines."""
