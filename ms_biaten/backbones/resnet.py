"""ResNets of bottleneck blocks without their classifier, as timm and torchvision name them."""

from mindspore import nn, ops

from ms_biaten.spec.errors import UserError

VARIANTS = {
    "resnet50": {"layers": (3, 4, 6, 3)},
    "resnet101": {"layers": (3, 4, 23, 3)},
    "resnet152": {"layers": (3, 8, 36, 3)},
}
EXPANSION = 4  # output channels of a block for each channel inside it


def convolution(inputs, outputs, kernel, stride=1):
    return nn.Conv2d(inputs, outputs, kernel, stride, pad_mode="pad", padding=kernel // 2)


class Bottleneck(nn.Cell):
    """1x1 to `width` channels, 3x3 with the stride, 1x1 to four times as many; a skip around."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = EXPANSION * width
        self.conv1 = convolution(inputs, width, 1)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = convolution(width, width, 3, stride)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = convolution(width, outputs, 1)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride > 1 or inputs != outputs:
            self.downsample = nn.SequentialCell(
                [convolution(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs)]
            )

    def construct(self, x):
        skip = x if self.downsample is None else self.downsample(x)
        x = ops.relu(self.bn1(self.conv1(x)))
        x = ops.relu(self.bn2(self.conv2(x)))
        return ops.relu(self.bn3(self.conv3(x)) + skip)


def stack(inputs, width, depth, stride):
    """A stage: its first block changes width and resolution."""
    rest = [Bottleneck(EXPANSION * width, width, 1) for _ in range(depth - 1)]
    return nn.SequentialCell([Bottleneck(inputs, width, stride), *rest])


class ResNet(nn.Cell):
    """images (B,3,H,W) -> features (B,R), the mean over all places; R is 2048 as published."""

    def __init__(self, layers, channels=(64, 128, 256, 512)):
        super().__init__()
        if len(layers) != 4 or len(channels) != 4 or min(layers) < 1:
            raise UserError(f"layers {layers}, channels {channels}: expected four of each, from 1")
        outputs = [64, *(EXPANSION * width for width in channels)]
        self.width = outputs[-1]
        self.conv1 = convolution(3, 64, 7, 2)
        self.bn1 = nn.BatchNorm2d(64)
        self.pool = nn.MaxPool2d(3, 2, pad_mode="valid")
        self.layer1 = stack(outputs[0], channels[0], layers[0], 1)
        self.layer2 = stack(outputs[1], channels[1], layers[1], 2)
        self.layer3 = stack(outputs[2], channels[2], layers[2], 2)
        self.layer4 = stack(outputs[3], channels[3], layers[3], 2)

    def construct(self, images):
        x = ops.relu(self.bn1(self.conv1(images)))
        x = self.pool(ops.pad(x, (1, 1, 1, 1)))  # after ReLU a zero never wins the maximum
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return x.mean((2, 3))
