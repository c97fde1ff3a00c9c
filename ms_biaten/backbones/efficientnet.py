"""EfficientNet-Lite0 without its classifier, as timm names it: ReLU6, no squeeze-and-excitation.

Paddings are TensorFlow's: as many zeros as the stride needs, the odd one below and to the right.
MindSpore's pad mode 'same' is that rule.
"""

from mindspore import nn, ops

VARIANTS = {"tf_efficientnet_lite0": {}}

STEM, HEAD = 32, 1280
# kernel, stride of the first block, expansion, output channels, blocks
STAGES = (
    (3, 1, 1, 16, 1),
    (3, 2, 6, 24, 2),
    (5, 2, 6, 40, 2),
    (3, 2, 6, 80, 3),
    (5, 1, 6, 112, 3),
    (5, 2, 6, 192, 4),
    (3, 1, 6, 320, 1),
)


def convolution(inputs, outputs, kernel, stride=1, group=1):
    return nn.Conv2d(inputs, outputs, kernel, stride, pad_mode="same", group=group)


def depthwise(channels, kernel, stride):
    return convolution(channels, channels, kernel, stride, group=channels)


def batch_norm(channels):
    return nn.BatchNorm2d(channels, eps=1e-3)


class SeparableBlock(nn.Cell):
    """Without an expansion: depthwise, then 1x1. It changes the channels, so nothing skips it."""

    def __init__(self, inputs, outputs, kernel, stride):
        super().__init__()
        self.conv_dw = depthwise(inputs, kernel, stride)
        self.bn1 = batch_norm(inputs)
        self.conv_pw = convolution(inputs, outputs, 1)
        self.bn2 = batch_norm(outputs)

    def construct(self, x):
        return self.bn2(self.conv_pw(ops.relu6(self.bn1(self.conv_dw(x)))))


class InvertedBlock(nn.Cell):
    """1x1 to more channels, depthwise, 1x1 to few; a skip where the shape stays."""

    def __init__(self, inputs, outputs, kernel, stride, expansion):
        super().__init__()
        inside = inputs * expansion
        self.skips = stride == 1 and inputs == outputs
        self.conv_pw = convolution(inputs, inside, 1)
        self.bn1 = batch_norm(inside)
        self.conv_dw = depthwise(inside, kernel, stride)
        self.bn2 = batch_norm(inside)
        self.conv_pwl = convolution(inside, outputs, 1)
        self.bn3 = batch_norm(outputs)

    def construct(self, x):
        y = ops.relu6(self.bn1(self.conv_pw(x)))
        y = ops.relu6(self.bn2(self.conv_dw(y)))
        y = self.bn3(self.conv_pwl(y))
        return x + y if self.skips else y


def stage(inputs, kernel, stride, expansion, outputs, depth):
    if expansion == 1:
        return nn.SequentialCell([SeparableBlock(inputs, outputs, kernel, stride)])
    first = InvertedBlock(inputs, outputs, kernel, stride, expansion)
    rest = [InvertedBlock(outputs, outputs, kernel, 1, expansion) for _ in range(depth - 1)]
    return nn.SequentialCell([first, *rest])


class EfficientNetLite(nn.Cell):
    """images (B,3,H,W) -> features (B,1280), the mean over all places."""

    def __init__(self):
        super().__init__()
        self.width = HEAD
        channels = [STEM, *(row[3] for row in STAGES)]
        self.conv_stem = convolution(3, STEM, 3, 2)
        self.bn1 = batch_norm(STEM)
        self.blocks = nn.SequentialCell(
            [stage(inputs, *row) for inputs, row in zip(channels[:-1], STAGES, strict=True)]
        )
        self.conv_head = convolution(channels[-1], HEAD, 1)
        self.bn2 = batch_norm(HEAD)

    def construct(self, images):
        x = ops.relu6(self.bn1(self.conv_stem(images)))
        x = ops.relu6(self.bn2(self.conv_head(self.blocks(x))))
        return x.mean((2, 3))
