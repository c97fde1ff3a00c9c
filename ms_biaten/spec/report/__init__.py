"""A run as one self-contained page, and its figures for papers."""
