"""A MindSpore user needs no PyTorch: from labelled images to a served model without it."""

from tests.conftest import ROOT
from tests.pictures import CLASSES, draw_class
from tests.thin_runs import MODEL, OPS

WALLED = """
import sys

class Wall:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "torchvision", "timm", "torch_ref", "onnx"):
            raise ImportError(f"{name} is not here")

sys.meta_path.insert(0, Wall())
from ms_biaten.cli import main

for line in sys.stdin.read().splitlines():
    print("$", line)
    assert main(line.split()) == 0, line
assert not {"torch", "timm", "torch_ref"} & set(sys.modules)
"""

MODEL_TEXT = " ".join([*MODEL, *OPS])
PIPELINE = f"""
pretrain --domain ink --images ink --labelled {MODEL_TEXT} --steps 4 --batch 8 --width 16 --output s
pretrain --domain chalk --images chalk --labelled {MODEL_TEXT} --steps 4 --batch 8 --width 16 --output s
extract --source ink=s --source chalk=s {MODEL_TEXT} --images clay --classes classes.txt --target clay --output bank
train --config own --target clay --set data.bank=bank --set train.epochs=1 --set attention.width=8 --set run.mode=pynative --output run
train --config own --target clay --method decision --set train.trainable=backbone --set data.bank=bank --set data.images=clay --set train.epochs=1 --set run.mode=pynative --no-report --output live
convert s/ink.backbone.safetensors ink.ckpt --backbone resnet50 --backbone-set layers=[1,1,1,1] --backbone-set channels=[8,16,24,32]
predict run clay --mode pynative
export live --output served
"""  # noqa: E501


def test_the_whole_pipeline(tmp_path, command):
    for style in ("ink", "chalk", "clay"):
        draw_class(tmp_path / style, style)
    (tmp_path / "classes.txt").write_text("\n".join(CLASSES))
    (tmp_path / "walled.py").write_text(WALLED)
    done = command("walled.py", cwd=tmp_path, stdin=PIPELINE.strip())
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 37
    assert (tmp_path / "run/report.html").is_file()
    assert (tmp_path / "served/model.mindir").is_file()


def test_the_requirements_name_no_torch():
    text = (ROOT / "setup.py").read_text()
    required = text[text.index("install_requires") : text.index("extras_require")]
    assert not any(word in required for word in ("torch", "timm", "onnx"))
