"""Every setting of a run: its name, type and default. Frozen; built by `loading.py` alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ms_biaten.spec.profiles import Profile

MethodName = Literal[
    "bi_aten", "aten", "uniform", "avg_ens", "bn_only", "shot", "decision", "caida", "date"
]
DEVICES = ("CPU", "GPU", "Ascend")
PRECISIONS = ("fp32", "fp16")
MACHINE = ("device", "precision", "mode", "cpu_threads")  # of a run: where and how it computes
Rule = Literal["last", "snd", "im", "entropy", "oracle"]


@dataclass(frozen=True)
class Method:
    """Which method, and the choices that the literature leaves open."""

    name: MethodName = "bi_aten"
    # What follows is for decision, caida and date: docs/methods.md.
    weights: Literal["native", "aten", "uniform"] = "native"  # the method's own, ATEN's, or 1/N
    gradient: Literal["detached", "through"] = "detached"  # of ATEN's weights into the features
    label_mix: Literal["batch_mean", "per_instance"] = "batch_mean"  # ATEN's weights in the labels
    date_beta: Literal["times_prior", "alone"] = "times_prior"  # ATEN's weights in DATE


@dataclass(frozen=True)
class Data:
    """Where features, heads, backbones and images are."""

    benchmark: str = "debug"
    bank: str = ""  # folder of the target's feature bank; may hold {target}; empty: made in memory
    sources: str = ""  # folder of the <domain>.safetensors heads; empty: heads/ in the bank
    placement: Literal["disk", "host", "device"] = "disk"  # where the features are: docs/scaling.md
    # What follows is read only where images are: train.trainable=backbone, predict, export.
    models: str = ""  # folder of the sources' backbones; empty: where the bank says they were
    images: str = ""  # folder that the bank's samples are in
    workers: int = 2  # threads that decode images


@dataclass(frozen=True)
class Model:
    """Widths of the features and of the bottleneck."""

    raw_width: int = 1024  # R: width of the backbone's feature; 0: as the bank has it
    width: int = 256  # D = d_k: width of the bottleneck; 0: as the heads have it


@dataclass(frozen=True)
class Attention:
    """Heads, width and start of the projections."""

    heads: int = 4  # H
    width: int = 512  # E = d_emb of one head
    temperature: float = 1.0  # of both softmaxes; 1.0 is the paper's
    init_std: float = 0.005  # of W^F and W^O; W^QF starts as an ordinary linear layer


@dataclass(frozen=True)
class Loss:
    """Weights of the terms; switches for the ablations."""

    lambda_intra: float = 1.0  # lambda of Eq. (16)
    gamma: float = 0.1  # gamma of Eq. (15)
    label_smoothing: float = 0.1
    epsilon: float = 1e-5  # inside the logarithms of Eq. (6)
    intra: bool = True  # false: Table 4, "w/o L_intra"
    im: bool = True  # false: Table 4, "w/o L_IM", the IM term of Eq. (15)
    consistency: float = 0.01  # of CAiDA's L_crc
    diversity: float = 0.3  # of DATE's L_dc


@dataclass(frozen=True)
class Train:
    """The optimiser and the length of a run."""

    epochs: int = 30
    batch_size: int = 64
    lr: float = 0.02
    momentum: float = 0.9
    weight_decay: float = 0.0
    nesterov: bool = False
    clip_norm: float = 5.0  # 0 switches clipping off
    warmup_epochs: int = 0  # linear warm-up of the cosine schedule
    lr_min: float = 0.0  # where the cosine schedule ends
    d_alter: int = 2  # alternate interval of Algorithm 1
    # Eq. (18), for shot, decision, caida and date: theta_f, too, from images drawn anew each epoch.
    trainable: Literal["bottleneck", "backbone"] = "bottleneck"
    backbone_scale: float = 0.1  # of lr, for the backbones


@dataclass(frozen=True)
class Run:
    """Seed, device, output, and which epoch is kept."""

    seed: int = 0
    device: str = "CPU"
    precision: Literal["fp32", "fp16"] = "fp32"  # of the backbones; what is trained on stays fp32
    mode: Literal["graph", "pynative"] = "graph"  # MindSpore: compile the step, or run op by op
    cpu_threads: int = (
        1  # MindSpore, per kernel: 1 repeats to the last bit, 0 leaves it to MindSpore
    )
    output: str = ""  # empty: a new folder below runs/
    eval_batch: int = 512
    image_batch: int = 64  # images at once through the backbones, outside of training
    checkpoint_seconds: float = 20.0  # at least, between two on disk; 0: one after every epoch
    select: Rule = "last"  # which epoch's weights the predictions come from


@dataclass(frozen=True)
class Config:
    """All settings of a run, by section; made by `loading.load_config`."""

    method: Method = field(default_factory=Method)
    target: str = ""
    data: Data = field(default_factory=Data)
    model: Model = field(default_factory=Model)
    attention: Attention = field(default_factory=Attention)
    loss: Loss = field(default_factory=Loss)
    train: Train = field(default_factory=Train)
    profile: Profile = field(default_factory=Profile)
    run: Run = field(default_factory=Run)
