"""Images of the emoji benchmark: a vendor's style is a domain, a group of things is a class.

    fetch (npm packages) -> classes (what is drawn) -> split (who sees it) -> render (PNG, lists)

Nothing here needs PyTorch; `python -m torch_ref.emoji --root DIR` does it all.
"""
