"""Target images through the frozen source backbones, once, into a feature bank on disk.

    python torch_ref/extract.py --source photo=models/photo --source sketch=models/sketch \\
        --backbone resnet50 --images pictures --classes classes.txt --target mine \\
        --output banks/mine
"""

import sys
from pathlib import Path

if __name__ == "__main__":  # run as a file, Python puts this folder first
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import torch

from torch_ref.runtime import device_of, half_precision


class Extractor:
    """images (B,3,H,W) -> features (B,N,R) of the frozen backbones, as arrays."""

    def __init__(self, backbones, config):
        self.device, self.precision = device_of(config), config.run.precision
        # Channels last: EfficientNet-Lite0 ran more than twice as fast with it on a CPU.
        self.backbones = [b.to(self.device, memory_format=torch.channels_last) for b in backbones]

    @torch.inference_mode()
    def __call__(self, images):
        seen = torch.from_numpy(images).to(self.device)
        with half_precision(self.device, self.precision):
            features = [backbone.eval()(seen) for backbone in self.backbones]
        return torch.stack(features, 1).float().cpu().numpy()


def main(arguments=None):
    from torch_ref.cli import main as command_line

    return command_line(["extract", *(sys.argv[1:] if arguments is None else arguments)])


if __name__ == "__main__":
    sys.exit(main())
