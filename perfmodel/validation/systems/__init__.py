"""Published systems: how each is expressed, and what it is checked against."""
