"""Gates on what chapters stand on: registry and pins, links, code and spelling, what was recorded or predicted."""
