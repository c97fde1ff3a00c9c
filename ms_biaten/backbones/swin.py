"""Swin Transformer without its classifier, as timm computes and names it.

Shapes: B images, H x W tokens of E channels, K windows of T tokens, A heads, R features.
"""

import mindspore as ms
from mindspore import Parameter, Tensor, nn, ops
from mindspore.common.initializer import TruncatedNormal, initializer

from ms_biaten.backbones.stochastic_depth import DropPath, rates_of
from ms_biaten.backbones.windows import cut, filled, join, relative_positions, roll, shift_mask
from ms_biaten.spec.errors import UserError

TINY = {"embed_dim": 96, "depths": (2, 2, 6, 2), "num_heads": (3, 6, 12, 24)}
SMALL = {**TINY, "depths": (2, 2, 18, 2)}
BASE = {"embed_dim": 128, "depths": (2, 2, 18, 2), "num_heads": (4, 8, 16, 32)}
LARGE = {"embed_dim": 192, "depths": (2, 2, 18, 2), "num_heads": (6, 12, 24, 48)}
VARIANTS = {
    "swin_tiny_patch4_window7_224": {**TINY, "window_size": 7},
    "swin_small_patch4_window7_224": {**SMALL, "window_size": 7},
    "swin_base_patch4_window7_224": {**BASE, "window_size": 7},
    "swin_base_patch4_window12_384": {**BASE, "window_size": 12},
    "swin_large_patch4_window7_224": {**LARGE, "window_size": 7},
    "swin_large_patch4_window12_384": {**LARGE, "window_size": 12},
}


def layer_norm(width):
    return nn.LayerNorm((width,), epsilon=1e-5)  # MindSpore's default is 1e-7


def pair(value):
    return tuple(value) if isinstance(value, (tuple, list)) else (value, value)


class PatchEmbed(nn.Cell):
    """images (B,3,.,.) -> tokens (B,H,W,E), with the authors' absolute positions where asked."""

    def __init__(self, image_size, patch_size, width, absolute_position):
        super().__init__()
        self.image_size = image_size
        self.size = tuple(side // patch_size for side in image_size)
        self.proj = nn.Conv2d(3, width, patch_size, patch_size, pad_mode="valid", has_bias=True)
        self.norm = layer_norm(width)
        self.absolute_pos_embed = None
        if absolute_position:
            H, W = self.size
            self.absolute_pos_embed = Parameter(ops.zeros((1, H * W, width)))

    def construct(self, images):
        if images.shape[2:] != self.image_size:  # windows and masks are made for one size
            raise ValueError(f"images are {images.shape[2:]}, Swin was built for {self.image_size}")
        tokens = self.norm(self.proj(images).transpose(0, 2, 3, 1))
        if self.absolute_pos_embed is not None:
            tokens = tokens + self.absolute_pos_embed.reshape(1, *tokens.shape[1:])
        return tokens


class PatchMerging(nn.Cell):
    """(B,H,W,E) -> (B,H/2,W/2,2E): four neighbours, column by column, become one token."""

    def __init__(self, width):
        super().__init__()
        self.norm = layer_norm(4 * width)
        self.reduction = nn.Dense(4 * width, 2 * width, has_bias=False)

    def construct(self, tokens):
        B, H, W, E = tokens.shape
        if H % 2 or W % 2:
            tokens = ops.pad(tokens, (0, 0, 0, W % 2, 0, H % 2))
        H, W = (H + 1) // 2, (W + 1) // 2
        fours = tokens.reshape(B, H, 2, W, 2, E).transpose(0, 1, 3, 4, 2, 5)
        return self.reduction(self.norm(fours.reshape(B, H, W, 4 * E)))


class WindowAttention(nn.Cell):
    """(B*K,T,E) -> the same: attention inside each window, biased by relative position."""

    def __init__(self, width, heads, window, mask):
        super().__init__()
        h, w = window
        self.heads, self.scale = heads, (width // heads) ** -0.5
        table = ((2 * h - 1) * (2 * w - 1), heads)
        self.relative_position_bias_table = Parameter(initializer(TruncatedNormal(0.02), table))
        self.relative_positions = Tensor(relative_positions(window), ms.int32)
        self.mask = Tensor(mask)
        self.qkv = nn.Dense(width, 3 * width)
        self.proj = nn.Dense(width, width)

    def bias(self):
        """(A,T,T), looked up for every pair of tokens."""
        T = self.mask.shape[-1]
        rows = ops.gather(self.relative_position_bias_table, self.relative_positions, 0)
        return rows.reshape(T, T, self.heads).transpose(2, 0, 1)

    def construct(self, windows):
        count, T, E = windows.shape
        parts = self.qkv(windows).reshape(count, T, 3, self.heads, E // self.heads)
        parts = parts.transpose(2, 0, 3, 1, 4)  # (3,B*K,A,T,E/A)
        query, key, value = parts[0] * self.scale, parts[1], parts[2]
        if T == 1:
            # A token alone attends to itself. Not by a softmax: in pynative mode the gradient of
            # one over a single number leaves those of later ones wrong.
            return self.proj(value.reshape(count, T, E))
        scores = ops.matmul(query, key.swapaxes(-2, -1))
        # The small sum first: added to every image at once, instead of bias and mask in turn.
        scores = scores.reshape(-1, self.mask.shape[0], self.heads, T, T)
        scores = (scores + (self.bias() + self.mask)).reshape(count, self.heads, T, T)
        mixed = ops.matmul(ops.softmax(scores, -1), value)
        return self.proj(mixed.swapaxes(1, 2).reshape(count, T, E))


class Mlp(nn.Cell):
    def __init__(self, width, hidden):
        super().__init__()
        self.fc1 = nn.Dense(width, hidden)
        self.fc2 = nn.Dense(hidden, width)

    def construct(self, tokens):
        return self.fc2(ops.gelu(self.fc1(tokens), approximate="none"))


class Block(nn.Cell):
    """Tokens (B,H,W,E) of the nominal size; an actual size beyond it is padded to whole windows."""

    def __init__(self, width, heads, size, window, shifted, mlp_ratio, drop_path):
        super().__init__()
        sides = list(zip(size, window, strict=True))
        self.shift = tuple(w // 2 if shifted and s > w else 0 for s, w in sides)
        self.window = tuple(min(side) for side in sides)
        self.size = filled(size, self.window)
        mask = shift_mask(self.size, self.window, self.shift)
        self.norm1 = layer_norm(width)
        self.attn = WindowAttention(width, heads, self.window, mask)
        self.norm2 = layer_norm(width)
        self.mlp = Mlp(width, int(width * mlp_ratio))
        self.drop_path1 = DropPath(drop_path) if drop_path else None
        self.drop_path2 = DropPath(drop_path) if drop_path else None

    def attend(self, tokens):
        _, H, W, _ = tokens.shape
        (h, w), (down, right) = self.window, self.shift
        tokens = roll(tokens, down, right)
        below, beside = -H % h, -W % w
        if below or beside:
            tokens = ops.pad(tokens, (0, 0, 0, beside, 0, below))
        windows = self.attn(cut(tokens, self.window))
        tokens = join(windows, self.window, (H + below, W + beside))[:, :H, :W]
        return roll(tokens, -down % H, -right % W)

    def construct(self, tokens):
        branch = self.attend(self.norm1(tokens))
        if self.training and self.drop_path1 is not None:
            branch = self.drop_path1(branch)
        tokens = tokens + branch
        branch = self.mlp(self.norm2(tokens))
        if self.training and self.drop_path2 is not None:
            branch = self.drop_path2(branch)
        return tokens + branch


class Stage(nn.Cell):
    """Merges patches, but for the first stage, and applies its blocks, every second one shifted."""

    def __init__(self, width, merging, heads, size, window, mlp_ratio, drop_paths):
        super().__init__()
        self.downsample = PatchMerging(width // 2) if merging else None
        self.blocks = nn.CellList(
            [
                Block(width, heads, size, window, i % 2 == 1, mlp_ratio, drop_path)
                for i, drop_path in enumerate(drop_paths)
            ]
        )

    def construct(self, tokens):
        if self.downsample is not None:
            tokens = self.downsample(tokens)
        for block in self.blocks:
            tokens = block(tokens)
        return tokens


class Swin(nn.Cell):
    """images (B,3,.,.) -> features (B,R): the mean of the last stage's normed tokens."""

    def __init__(
        self,
        image_size,
        embed_dim,
        depths,
        num_heads,
        window_size=7,
        patch_size=4,
        mlp_ratio=4.0,
        drop_path_rate=0.1,
        absolute_position=False,
    ):
        super().__init__()
        stages = range(len(depths))
        windows = windows_of(window_size, len(depths))
        widths = [embed_dim * 2**i for i in stages]
        check_heads(widths, depths, num_heads)
        self.width = widths[-1]
        self.patch_embed = PatchEmbed(pair(image_size), patch_size, embed_dim, absolute_position)
        grid = self.patch_embed.size
        sizes = [tuple(side // 2**i for side in grid) for i in stages]
        if min(sizes[-1]) < 1:
            least = patch_size * 2 ** stages[-1]
            raise UserError(f"image_size {image_size}: too small for Swin, at least {least}")
        drops = rates_of(drop_path_rate, depths)
        layers = [
            Stage(widths[i], i > 0, num_heads[i], sizes[i], windows[i], mlp_ratio, drops[i])
            for i in stages
        ]
        check_masks(layers, grid, image_size)
        self.layers = nn.CellList(layers)
        self.norm = layer_norm(self.width)

    def construct(self, images):
        tokens = self.patch_embed(images)
        for stage in self.layers:
            tokens = stage(tokens)
        return self.norm(tokens).mean((1, 2))


def windows_of(window_size, stages):
    """One window for each stage, from a side, a pair of sides or, as timm takes it, a list."""
    if not isinstance(window_size, (tuple, list)) or len(window_size) == 2:
        return [pair(window_size)] * stages
    if len(window_size) != stages:
        raise UserError(f"window_size {window_size}: expected one window, or one per stage")
    return [pair(window) for window in window_size]


def check_heads(widths, depths, heads):
    if len(heads) != len(depths):
        raise UserError(f"num_heads {heads}: expected one number for each of {depths}, the depths")
    for width, count in zip(widths, heads, strict=True):
        if width % count:
            raise UserError(f"num_heads {heads}: a stage of {width} channels has no {count} heads")


def check_masks(layers, grid, image_size):
    """Merging rounds an odd side up, the masks' size is rounded down: they must not disagree."""
    actual = grid
    for stage in layers:
        if stage.downsample is not None:
            actual = tuple((side + 1) // 2 for side in actual)
        for block in stage.blocks:
            if any(block.shift) and filled(actual, block.window) != block.size:
                raise UserError(
                    f"image_size {image_size}: {actual} tokens do not fit masks made for "
                    f"{block.size}, in timm neither; take a multiple of 32"
                )
