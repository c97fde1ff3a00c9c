"""Grids of runs and the tables made of them: `ms-biaten experiment`."""
