"""What both frameworks share: no MindSpore and no PyTorch is imported below this package."""
