"""Count the instructions of statements: read what callgrind wrote, and choose what counts."""
