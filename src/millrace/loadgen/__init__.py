"""The contract with the load generator `millrace-load`: a specification in, results out."""
