"""Which test runs which command of the documents: three tables, and a command is in one of them.

RUN         run by tests/test_document_runs.py, for real, with what the table adds to make it small
ELSEWHERE   run by another test, which the table names, with a text that this test must contain
NOT_RUN     what this machine cannot run, and why; its syntax is checked all the same

`python ms_biaten/train.py` stands here as `ms-biaten train`, and so do the other scripts.
"""

from dataclasses import dataclass, field

TINY = "--set attention.width=8 --set run.mode=pynative"
QUICK = f"--set train.epochs=1 {TINY}"
FEW_STEPS = f"{QUICK} --set train.batch_size=64"
SHORT = f"{FEW_STEPS} --no-report"
FEW = "--set train.batch_size=8"  # of the few pictures that there are
IMAGES = "--workers 0 --mode pynative"
LAYERS = "--backbone-set layers=[1,1,1,1] --backbone-set channels=[8,16,24,32]"
THIN = f"{LAYERS} --resize 40 --crop 32 {IMAGES}"
TRAINED = f"{THIN} --epochs 1 --batch 8 --width 16"
ON_CPU = "--device CPU"
OWN = "runs/own/mine/bi_aten-paper-seed0"
PHOTO = "--labelled --backbone resnet50 --weights resnet50.safetensors --output sources"
BOTH = "--source photo=sources --source sketch=sources --backbone resnet50 --images pictures"
MINE = "--classes classes.txt --target mine --output banks/mine"
LIVE = "--method decision --set method.weights=aten --set train.trainable=backbone"
EMOJI = "--set data.images=data/emoji --set data.models=data/emoji/sources"
RECORD = "--record benchmarks/results/emoji.jsonl"
VENDORS = " ".join(
    f"--source {name}=data/emoji/sources" for name in ("noto", "fluent", "contrast", "monotone")
)


@dataclass(frozen=True)
class Reduced:
    """What a command is run with, beside its own words: `add` at its end, `swap` within it."""

    add: str = ""
    swap: dict[str, str] = field(default_factory=dict)


AS_IT_IS = Reduced()
SMALL_BANK = "--set data.bank=banks/twemoji --set model.raw_width=0 --set model.width=0"

# Stories: the commands of one follow each other in one folder (tests/document_place.py).
RUN: dict[str, dict[str, Reduced]] = {
    "own": {
        f"ms-biaten pretrain --domain photo --images photo {PHOTO}": Reduced(TRAINED),
        f"ms-biaten pretrain --domain sketch --images sketch {PHOTO}": Reduced(TRAINED),
        f"ms-biaten extract {BOTH} {MINE}": Reduced(THIN),
        "ms-biaten train --config own --target mine --set data.bank=banks/mine": Reduced(
            f"{QUICK} {FEW}"
        ),
        f"ms-biaten predict {OWN} new_pictures": Reduced(IMAGES),
        f"ms-biaten predict {OWN} new_pictures one.jpg": Reduced(f"{IMAGES} --output more"),
        f"ms-biaten export {OWN} --output served": AS_IT_IS,
        "python served/predict.py new_pictures/*.jpg": AS_IT_IS,
    },
    "ascend": {  # what can be tried without one: the same words on a CPU
        "ms-biaten convert resnet50.safetensors resnet50.ckpt --backbone resnet50": Reduced(LAYERS),
        f"ms-biaten pretrain --domain photo --images photo {PHOTO} --device Ascend": Reduced(
            f"{TRAINED} {ON_CPU} --output there"
        ),
        f"ms-biaten pretrain --domain sketch --images sketch {PHOTO} --device Ascend": Reduced(
            f"{TRAINED} {ON_CPU} --output there"
        ),
        f"ms-biaten extract {BOTH} {MINE} --device Ascend --precision fp16": Reduced(
            f"{THIN} {ON_CPU} --output there/bank", {"=sources": "=there"}
        ),
        "ms-biaten train --config own --target mine --set data.bank=banks/mine --device Ascend": (
            Reduced(f"{QUICK} {FEW} {ON_CPU} --no-report")
        ),
        f"ms-biaten train --config own --target mine {LIVE} --set data.bank=banks/mine "
        "--set data.images=pictures --device Ascend": Reduced(
            f"{QUICK} {FEW} {ON_CPU} --no-report"
        ),
        **{
            "ms-biaten train --config own --target mine --set data.bank=banks/mine "
            f"--device Ascend --seed {seed}": Reduced(f"{QUICK} {FEW} {ON_CPU} --no-report")
            for seed in (0, 1)
        },
        f"ms-biaten predict {OWN} pictures/*.jpg --device Ascend --precision fp16": Reduced(
            f"{IMAGES} {ON_CPU} --output there/predictions"
        ),
        "python served/predict.py pictures/*.jpg --device Ascend": Reduced(ON_CPU),
        "python -c \"import mindspore;mindspore.set_device('Ascend');mindspore.run_check()\"": (
            Reduced(swap={"Ascend": "CPU"})
        ),
    },
    "debug": {
        "ms-biaten train --config debug --target dusk --method aten --seed 3": Reduced(QUICK),
        "ms-biaten train --config debug --profile official --set train.lr=0.01 "
        "--set attention.temperature=0.1": Reduced(SHORT),
        "ms-biaten train --resume runs/debug/dusk/aten-paper-seed3": AS_IT_IS,
        "ms-biaten report runs/debug/dusk/aten-paper-seed3": AS_IT_IS,
        "ms-biaten select runs/debug": AS_IT_IS,
        "ms-biaten rerun runs/debug/dusk/aten-paper-seed3": AS_IT_IS,
        "ms-biaten compare runs/debug/dusk/aten-paper-seed3 "
        "runs/debug/dusk/aten-paper-seed3-rerun": AS_IT_IS,
        "ms-biaten train --config debug --set train.epochs=3 --output runs/a": Reduced(SHORT),
        "ms-biaten rerun runs/a": AS_IT_IS,
        "ms-biaten train --config debug --set train.epochs=3 --set run.cpu_threads=0 "
        "--output runs/b": Reduced(SHORT),
        "ms-biaten compare runs/a runs/b --tolerance 1e-5": AS_IT_IS,
        "ms-biaten params --config configs/domainnet.yaml": AS_IT_IS,
        "ms-biaten equations": AS_IT_IS,
        "python -m torch_ref experiment fig7 --config debug --targets night": Reduced(QUICK),
    },
    "emoji": {
        "make train": Reduced(SHORT),
        "ms-biaten train": Reduced(SHORT),
        "python -m torch_ref train": Reduced(SHORT),
        "ms-biaten train --method decision": Reduced(SHORT),
        "ms-biaten train --method decision --set method.weights=aten": Reduced(SHORT),
        "ms-biaten report runs/emoji/twemoji/bi_aten-paper-seed0": AS_IT_IS,
        "ms-biaten report runs/emoji/twemoji/bi_aten-paper-seed0 --images data/emoji "
        "--output page.html": AS_IT_IS,
        "ms-biaten select runs/emoji/twemoji": AS_IT_IS,
        "ms-biaten experiment controls --config emoji --targets twemoji --seeds 3": Reduced(
            f"{FEW_STEPS} --seeds 1"
        ),
        "ms-biaten experiment controls --config emoji --seeds 5": Reduced(
            f"{FEW_STEPS} --seeds 1 --targets twemoji"
        ),
        "ms-biaten experiment table3 --config emoji --seeds 3": Reduced(
            f"{FEW_STEPS} --seeds 1 --targets twemoji"
        ),
        f"ms-biaten extract {VENDORS} --backbone tf_efficientnet_lite0 --resize 128 --crop 112 "
        "--images data/emoji --list data/emoji/lists/twemoji_target.txt --classes "
        "data/emoji/lists/classes.txt --target twemoji --views center drawn --dtype float16 "
        "--output banks/twemoji": Reduced(f"{THIN} --backbone resnet50"),
        f"ms-biaten train {LIVE} {EMOJI}": Reduced(f"{SHORT} {FEW} {SMALL_BANK}"),
    },
    "records": {  # nothing is left to run: the committed record has every cell of this target
        f"python -m torch_ref experiment controls --config emoji --seeds 5 --jobs 2 {RECORD}": (
            Reduced("--targets twemoji")
        ),
        f"python -m torch_ref experiment table3 --config emoji --seeds 3 --jobs 2 {RECORD}": (
            Reduced("--targets twemoji")
        ),
        f"python -m torch_ref experiment table4 --config emoji --seeds 3 --jobs 2 {RECORD}": (
            Reduced("--targets twemoji")
        ),
        f"python -m torch_ref experiment end_to_end --config emoji --seeds 1 {EMOJI} {RECORD}": (
            Reduced("--targets twemoji")
        ),
    },
    "office": {
        "ms-biaten lists --benchmark office_caltech --images folder --output lists": AS_IT_IS,
        "ms-biaten lists --benchmark office_home --images OfficeHome --output lists "
        "--order lists": Reduced("--output lists_home"),
        "ms-biaten train --config configs/office_caltech.yaml --target dslr "
        "--set data.bank=banks/{target} --set data.sources=heads": Reduced(SHORT),
        "ms-biaten train --config office_caltech --target dslr --controls": Reduced(SHORT),
        "ms-biaten experiment table3 --config office_caltech --output table3.md "
        "--latex table3.tex": Reduced(f"{FEW_STEPS} --seeds 1 --targets dslr"),
        "python -m torch_ref experiment table3 --config office_caltech --seeds 3 --jobs 2 "
        "--record benchmarks/results/office_caltech.jsonl": Reduced(
            f"{FEW_STEPS} --seeds 1 --targets dslr --jobs 1"
        ),
        "ms-biaten build --benchmark office_home --images OfficeHome --backbone resnet50 "
        "--weights resnet50.safetensors --output data/office_home": Reduced(
            f"{LAYERS} --resize 24 --crop 16 {IMAGES} --steps 1 --batch 32 --width 8"
        ),
        "ms-biaten convert amazon.backbone.safetensors amazon.ckpt --backbone resnet50": Reduced(
            LAYERS
        ),
        "ms-biaten convert amazon.ckpt again.safetensors --backbone resnet50": Reduced(LAYERS),
    },
    "workers": {
        "source .venv/bin/activate": AS_IT_IS,
        "msrun --worker_num=2 --local_worker_num=2 --master_port=8118 --log_dir=logs --join=True "
        "ms_biaten/train.py --config emoji --output runs/shared": Reduced(
            f"{QUICK} --no-report", {"8118": "PORT"}
        ),
    },
    "measured": {"python -m benchmarks.cost_model": AS_IT_IS},
}

# Page -> how many examples in Python it has; tests/test_document_runs.py runs them.
EXAMPLES = {
    "docs/api.md": 6,
    "docs/ascend.md": 2,
    "docs/backbones.md": 1,
    "docs/bank.md": 2,
    "docs/serving.md": 1,
}

# Command -> the test that runs it, and a text that this test contains.
ELSEWHERE = {
    f"python -m torch_ref export {OWN} --output served_onnx": (
        "tests/test_export.py::test_the_folder_serves_by_itself",
        'MAINS[framework](["export", run, "--output", str(out)]) == 0',
    ),
    "python -m torch_ref.emoji --root data/emoji": (
        "tests/test_emoji.py::test_the_command_makes_images_and_lists",
        "main(arguments) == 0",
    ),
    "ms-biaten train --config debug --set train.lr=1e30 --set train.clip_norm=0 "
    "--output runs/fast": (
        "tests/test_guard.py::test_a_loss_that_is_not_finite_is_told_with_its_samples",
        "*TOO_FAST",
    ),
    "python docs/reference.py": (
        "tests/test_documents.py::test_the_reference_is_current",
        "reference.page()",
    ),
    "python -m benchmarks.results_page": (
        "tests/test_results_page.py::test_the_page_is_what_its_command_writes",
        "results_page.page()",
    ),
}

NPM = "downloads with npm and trains for a quarter of an hour; tests/test_build.py has its steps"
INSTALLS = "changes the environment that the tests run in"
ASCEND = "needs Huawei's driver, CANN or MindSpore Lite"
MEASURES = "measures for a quarter of an hour and more; tests/test_benchmarks.py has its parts"
NOT_RUN = {
    "make test": "is what runs this test",
    "make emoji": NPM,
    "make office_caltech IMAGES=folder": "trains four sources; the story `office` has `build`",
    "make bench": MEASURES,
    "python -m benchmarks.scale": MEASURES,
    "python -m benchmarks.first_step --rounds 5": MEASURES,
    "python -m benchmarks.growth": MEASURES,
    "python -m benchmarks.near_and_far": MEASURES,
    "python -m benchmarks.kills --kills 200 --jobs 2": "tests/test_crash.py has a short form",
    "python -m benchmarks.kills --every-write": "tests/test_crash.py has a short form",
    "python -m benchmarks.soak": MEASURES,
    "python -m benchmarks.fuzz --cases 1000": "tests/test_fuzz.py has a short form",
    "make compat": "all tests under three Pythons take an hour",
    "make compat PYTHONS=3.12": "all tests once more",
    "pip install .": INSTALLS,
    "pip install '.[torch]'": INSTALLS,
    "pip install '.[emoji]'": INSTALLS,
    "pip install . -c constraints.txt": INSTALLS,
    "pip install '.[torch,onnx]' -c constraints.txt": INSTALLS,
    "pip install -c constraints.txt attrs cython decorator sympy cffi pathlib2 requests absl-py": (
        INSTALLS
    ),
    "python3.11 -m venv .venv": INSTALLS,
    "npu-smi info": ASCEND,
    "bash ./Ascend-cann-toolkit_9.1.0_linux-aarch64.run --install": ASCEND,
    "bash ./Ascend-cann-910b-ops_9.1.0_linux-aarch64.run --install": ASCEND,
    "source /usr/local/Ascend/cann/set_env.sh": ASCEND,
    'python -c "import acl;print(acl.get_soc_name())"': ASCEND,
    "export LD_LIBRARY_PATH=$PACKAGE/tools/converter/lib:$LD_LIBRARY_PATH": ASCEND,
    "$PACKAGE/tools/converter/converter/converter_lite --fmk=MINDIR --optimize=ascend_oriented "
    "--configFile=ascend.cfg --modelFile=served/model.mindir --outputFile=served/model_ascend": (
        ASCEND
    ),
}
