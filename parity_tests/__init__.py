"""MindSpore against PyTorch against a float64 NumPy oracle: equal to 1e-5, forward and backward."""
