"""Windows of Swin: how tokens are cut, shifted and told apart.

Shapes: B images, H x W tokens of E channels, K windows of T tokens. Windows, sizes and shifts are
pairs, down and right: on an image that is not square they differ.
"""

import numpy as np
from mindspore import ops

OUT_OF_REACH = -100.0  # timm's: small enough for a softmax to forget, and finite


def cut(tokens, window):
    """(B,H,W,E) -> (B*K,T,E)."""
    B, H, W, E = tokens.shape
    h, w = window
    tiles = tokens.reshape(B, H // h, h, W // w, w, E).transpose(0, 1, 3, 2, 4, 5)
    return tiles.reshape(-1, h * w, E)


def join(windows, window, size):
    """(B*K,T,E) -> (B,H,W,E) of size (H,W)."""
    (H, W), (h, w), E = size, window, windows.shape[-1]
    tiles = windows.reshape(-1, H // h, W // w, h, w, E).transpose(0, 1, 3, 2, 4, 5)
    return tiles.reshape(-1, H, W, E)


def roll(tokens, down, right):
    """The first rows and columns moved to the end; `ops.roll` has no kernel on CPU."""
    if down:
        tokens = ops.cat((tokens[:, down:], tokens[:, :down]), 1)
    if right:
        tokens = ops.cat((tokens[:, :, right:], tokens[:, :, :right]), 2)
    return tokens


def filled(size, window):
    """The size that whole windows cover."""
    return tuple(-(-s // w) * w for s, w in zip(size, window, strict=True))


def relative_positions(window):
    """(T*T,): which row of the bias table belongs to each pair of a window's tokens."""
    h, w = window
    row, column = np.divmod(np.arange(h * w), w)
    down = row[:, None] - row[None, :] + h - 1  # from 0 to 2h-2
    right = column[:, None] - column[None, :] + w - 1
    return (down * (2 * w - 1) + right).reshape(-1)


def shift_mask(size, window, shift):
    """(K,1,T,T), or (1,1,T,T) without a shift: 0 between neighbours of the image, else -100.

    A shift wraps around: the last windows hold tokens from opposite ends of the image.
    """
    T = window[0] * window[1]
    if not any(shift):
        return np.zeros((1, 1, T, T), np.float32)
    (H, W), (h, w) = size, window
    down, right = (bands(*axis) for axis in zip(size, window, shift, strict=True))
    region = 3 * down[:, None] + right[None, :]
    region = region.reshape(H // h, h, W // w, w).transpose(0, 2, 1, 3).reshape(-1, T)
    apart = region[:, :, None] != region[:, None, :]
    return np.where(apart, OUT_OF_REACH, 0.0).astype(np.float32)[:, None]


def bands(length, window, shift):
    """Along one axis: 0 before the last window, and in it 1 for its own tokens, 2 for wrapped."""
    band = np.zeros(length, int)
    if shift:
        band[-window:] = 1
        band[-shift:] = 2
    return band
