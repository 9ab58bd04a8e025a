"""The contract with the load generator `millrace-load`: specification out, results in."""
