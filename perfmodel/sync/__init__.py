"""How replicas agree on the weights after each step: one file for each protocol."""
