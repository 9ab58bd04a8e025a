"""What is observed of a server from outside while a trial measures it: one module an observer."""
