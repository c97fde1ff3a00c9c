"""Hostile input: every file that a command reads, damaged thousands of times.

loaders -> what is read, from a sound file, by what a command calls
mutators, trees, containers, specimens -> how it is damaged
worker -> cases one after the other in a process with limits; __main__ watches it

    python -m benchmarks.fuzz --cases 1000
"""
