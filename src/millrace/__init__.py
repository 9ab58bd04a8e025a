"""millrace: did the database get slower, by how much, and why?"""

__version__ = "0.1.0"
