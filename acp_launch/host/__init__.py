"""A launch that outlives its terminal: the host, and the fronts that attach to it."""
