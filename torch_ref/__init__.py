"""The PyTorch mirror of ms_biaten: the same modules, names and signatures."""
