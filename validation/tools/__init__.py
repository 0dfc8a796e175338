"""How the tables of published measurements become the measurement CSV."""
