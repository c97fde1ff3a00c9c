"""The command line, the same for both frameworks: parse -> config -> one call.

The framework is imported only when a command needs it: a misspelt key is answered at once.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable

import numpy as np

import ms_biaten
from ms_biaten.spec import (
    benchmark_lists,
    building,
    comparing,
    conversion,
    exporting,
    extracting,
    predicting,
    pretraining,
    rerunning,
    selection,
)
from ms_biaten.spec.benchmarks import benchmark
from ms_biaten.spec.equations import EQUATIONS
from ms_biaten.spec.errors import RunError, UserError, one_line
from ms_biaten.spec.experiments import command as experiments
from ms_biaten.spec.files import what_failed
from ms_biaten.spec.methods import initial_arrays
from ms_biaten.spec.report import command as report
from ms_biaten.spec.shapes import Sizes
from ms_biaten.spec.stopping import code_of, signals_stop
from ms_biaten.spec.training import config_of, train_command
from ms_biaten.spec.weights import source_shapes, stack_sources
from ms_biaten.spec.workers import asked


def main(program: str, backend: str, arguments: list[str] | None = None) -> int:
    """Runs one command; 0 done, 1 it failed, 2 a mistake in the input, 130 or 143 interrupted."""
    options = build_parser(program).parse_args(arguments)

    def command() -> None:
        if asked() > 1 and options.command not in (train_command, extracting.extract_command):
            raise UserError("of the commands, only extract and train are shared by workers")
        options.command(options, backend, program)

    return exit_code(program, command)


def exit_code(program: str, action: Callable[[], object]) -> int:
    """Does it, and says in one line what went wrong."""
    try:
        with signals_stop():
            action()
    except UserError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 2
    except OSError as error:  # a full disk, a folder that went away
        print(f"{program}: {one_line(what_failed(error))}", file=sys.stderr)
        return 1
    except RunError as error:
        print(f"{program}: {one_line(str(error))}", file=sys.stderr)
        return 1
    except MemoryError:
        print(f"{program}: not enough memory for what was asked", file=sys.stderr)
        return 1
    except KeyboardInterrupt as stop:
        print(f"{program}: stopped; the same command goes on from here", file=sys.stderr)
        return code_of(stop)
    return 0


def build_parser(program: str) -> argparse.ArgumentParser:
    """The command table, in the order of a project: sources, bank, run, what comes of it."""
    parser = argparse.ArgumentParser(prog=program, description=ms_biaten.__doc__)
    parser.add_argument("--version", action="version", version=ms_biaten.__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    pretraining.add_to(commands)
    extracting.add_to(commands)

    train = commands.add_parser("train", help="adapt the sources to an unlabelled target")
    add_config_options(train)
    train.add_argument("--device", help="CPU, GPU or Ascend (default: the config's)")
    train.add_argument(
        "--precision", help="fp32 or fp16, of backbones that are trained (default: the config's)"
    )
    train.add_argument("--seed", type=int, help="of the attention's start and the shuffling")
    train.add_argument("--output", help="folder of the run (default: a new one below runs/)")
    train.add_argument(
        "--resume",
        nargs="?",
        const="",
        metavar="RUN",
        help="go on with the run in RUN, or in --output where RUN is left out",
    )
    train.add_argument(
        "--controls",
        action="store_true",
        help="also run the other methods and controls, for one table of all",
    )
    train.add_argument(
        "--no-report", dest="report", action="store_false", help="do not write report.html"
    )
    train.set_defaults(command=train_command)

    predicting.add_to(commands)
    exporting.add_to(commands)

    experiment = commands.add_parser("experiment", help="a grid of runs, and the paper's tables")
    experiments.add_options(experiment)
    experiment.set_defaults(command=experiments.experiment_command)

    page = commands.add_parser("report", help="a run as one HTML page, and figures for papers")
    report.add_options(page)
    page.set_defaults(command=report.report_command)

    params = commands.add_parser("params", help="count the parameters that each method trains")
    add_config_options(params)
    params.set_defaults(command=params_command)

    select = commands.add_parser("select", help="choose among runs and epochs without labels")
    selection.add_options(select)
    select.set_defaults(command=selection.select_command)

    rerunning.add_to(commands)
    comparing.add_to(commands)

    lists = commands.add_parser("lists", help="list files of a benchmark from its image folders")
    benchmark_lists.add_options(lists)
    lists.set_defaults(command=benchmark_lists.lists_command)

    convert = commands.add_parser("convert", help="a backbone's weights into another kind of file")
    conversion.add_options(convert)
    convert.set_defaults(command=conversion.convert_command)

    building.add_to(commands)

    equations = commands.add_parser("equations", help="where each equation of the paper stands")
    equations.set_defaults(command=equations_command)
    return parser


def add_config_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", help="a YAML file or the name of a shipped one")
    parser.add_argument("--target", help="the domain to adapt to")
    parser.add_argument(
        "--method", help="bi_aten, aten, uniform, avg_ens, bn_only, shot, decision, caida or date"
    )
    parser.add_argument("--profile", help="paper (default) or official")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="for example train.lr=0.01"
    )


def params_command(options: argparse.Namespace, backend: str, program: str) -> None:
    """Counts real models, built at the config's sizes; no bank and no weights are needed."""
    config = config_of(options)
    if config.train.trainable == "backbone":
        raise UserError("train.trainable: params counts models on features, without backbones")
    bench = benchmark(config.data.benchmark)
    sources = len(bench.sources(config.target))
    framework = importlib.import_module(backend)
    framework.prepare(config)
    sizes = Sizes.of(config, sources, bench.class_count)
    head = source_shapes(sizes.raw, sizes.width, sizes.classes)
    frozen = sources * sum(int(np.prod(head[f"fc.{k}"])) for k in ("weight_v", "weight_g", "bias"))
    methods = [options.method] if options.method else ["bi_aten", "aten", "uniform"]
    print(
        f"{bench.title}: {sources} sources, {sizes.classes} classes, features {sizes.raw} -> "
        f"{sizes.width}, {sizes.heads} heads of {sizes.embedding}; "
        f"counted in {framework.versions()['framework']}"
    )
    print(f"{'method':8}  {'trained':>12}  {'with frozen classifiers':>24}")
    for method in methods:
        options.method = method
        chosen = config_of(options)
        zeros = {name: np.zeros(shape, np.float32) for name, shape in head.items()}
        zeros["fc.weight_v"] = np.ones(head["fc.weight_v"], np.float32)
        arrays = {**stack_sources([zeros] * sources), **initial_arrays(chosen, sizes)}
        trained = framework.make_engine(chosen, sizes, arrays).parameter_count()
        print(f"{method:8}  {trained:>12,}  {trained + frozen:>24,}")


def equations_command(options: argparse.Namespace, backend: str, program: str) -> None:
    package = backend.split(".")[0]
    for number, (module, name, what) in EQUATIONS.items():
        print(f"Eq. ({number:>2})  {package + '.' + module + '.' + name:40}  {what}")
