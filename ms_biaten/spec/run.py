"""The folder of one run: resolved config, results by epoch, checkpoints, predictions.

config.yaml                   run it again with --config
results.jsonl                 one line per epoch, the first with the versions, the last a summary
checkpoints/last.safetensors  weights, optimiser state, clusters, pseudo labels; position
checkpoints/best.safetensors  the selected epoch, where the rule is not `last`
predictions.csv               sample, class, confidence, weight of each source
report.html                   all of it as a page, by `spec/report`
"""

from __future__ import annotations

import csv
import io
import json
import time
from pathlib import Path
from typing import Any

from ms_biaten.spec.bank import Bank
from ms_biaten.spec.cells import as_cell
from ms_biaten.spec.checks import is_count, is_number
from ms_biaten.spec.config import Config
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.files import write_atomically
from ms_biaten.spec.history import check_lines, read_lines
from ms_biaten.spec.loading import differences, dump, from_tree
from ms_biaten.spec.metrics import Survey
from ms_biaten.spec.reading import parse_json, read_yaml
from ms_biaten.spec.weights import Arrays, read_safetensors, write_safetensors
from ms_biaten.spec.workers import Workers

CHECKPOINT_FORMAT = "1"
RESTORE = "restore the file, or run again"

# Where a run happens, and how often it is saved, does not change what it computes.
PLACE = (
    *("run.output", "run.device", "run.checkpoint_seconds", "run.image_batch"),
    *("data.placement", "data.models", "data.images", "data.workers"),
)


class RunFolder:
    def __init__(self, path: Path, config: Config):
        self.path, self.config = path, config
        self.lines: list[dict[str, Any]] = []
        self._pending: tuple[Arrays, dict[str, Any]] | None = None  # a checkpoint not yet on disk
        self._saved = time.monotonic()

    # -- opening -------------------------------------------------------------------------------

    @classmethod
    def create(cls, config: Config) -> RunFolder:
        """A new folder; one that holds anything already is refused."""
        path = Path(config.run.output) if config.run.output else _fresh_folder(config)
        check_free(path)
        try:
            (path / "checkpoints").mkdir(parents=True, exist_ok=True)
            with write_atomically(path / "config.yaml") as file:
                file.write(dump(config).encode())
        except OSError as error:
            raise UserError(f"output {path}: cannot be written ({error.strerror})") from None
        return cls(path, config)

    @classmethod
    def reopen(cls, path: Path, config: Config | None) -> RunFolder:
        """The run in `path`; a config given beside it must be the one the run was started with."""
        if not (path / "config.yaml").is_file():
            raise UserError(f"--resume: {path} holds no run (config.yaml is missing)")
        saved = from_tree(read_yaml(path / "config.yaml"), str(path / "config.yaml"))
        if config is not None:
            changed = differences(saved, config, PLACE)
            if changed:
                raise UserError(
                    f"--resume: {path} was started with other settings: {', '.join(changed)}; "
                    "resume without them, or start a new --output"
                )
        folder = cls(path, config or saved)
        folder.lines = read_lines(path / "results.jsonl")
        check_lines(folder.lines, path / "results.jsonl")
        return folder

    # -- results -------------------------------------------------------------------------------

    def write(self, line: dict[str, Any]) -> None:
        """Appends a line; the file is replaced whole, so a reader never sees half a line."""
        self.lines.append(line)
        with write_atomically(self.path / "results.jsonl") as file:
            file.write("".join(json.dumps(entry) + "\n" for entry in self.lines).encode())

    def rewind(self, epoch: int) -> None:
        """Forgets lines past the checkpoint: a kill may fall between the two writes."""
        self.lines = [
            line for line in self.lines if line["kind"] != "final" and line.get("epoch", 0) <= epoch
        ]

    # -- checkpoints ---------------------------------------------------------------------------

    def checkpoint(self, name: str = "last") -> Path:
        return self.path / "checkpoints" / f"{name}.safetensors"

    def save_checkpoint(self, arrays: Arrays, position: dict[str, Any], name: str = "last") -> None:
        metadata = {"format": CHECKPOINT_FORMAT, "position": json.dumps(position)}
        write_safetensors(self.checkpoint(name), arrays, metadata)

    def keep(self, arrays: Arrays, position: dict[str, Any]) -> None:
        """The state after an epoch: to disk where the one there is old enough, or by `flush`."""
        self._pending = arrays, position
        if time.monotonic() - self._saved >= self.config.run.checkpoint_seconds:
            self.flush()

    def flush(self) -> None:
        if self._pending is not None:
            self.save_checkpoint(*self._pending)
            self._pending, self._saved = None, time.monotonic()

    def load_checkpoint(self, name: str = "last") -> tuple[Arrays, dict[str, Any]]:
        path = self.checkpoint(name)
        try:
            arrays, metadata = read_safetensors(path)
        except UserError as error:
            raise UserError(f"{path}: not a readable checkpoint ({error})") from None
        if metadata.get("format") != CHECKPOINT_FORMAT:
            raise UserError(f"{path}: checkpoint format {metadata.get('format')} is not known")
        position = parse_json(metadata.get("position", ""), f"{path}: position", RESTORE)
        check_position(position, str(path))
        return arrays, position

    # -- predictions ---------------------------------------------------------------------------

    def write_predictions(self, bank: Bank, survey: Survey) -> Path:
        table = io.StringIO()
        writer = csv.writer(table, lineterminator="\n")
        writer.writerow(["sample", "class", "confidence", *(f"weight_{d}" for d in bank.domains)])
        for row, sample in enumerate(bank.samples):
            weights = [f"{weight:.6f}" for weight in survey.beta[row]]
            name = as_cell(bank.classes[survey.predicted[row]])
            writer.writerow([as_cell(sample), name, f"{survey.confidence[row]:.6f}", *weights])
        path = self.path / "predictions.csv"
        with write_atomically(path) as file:
            # File names are any bytes.
            file.write(table.getvalue().encode("utf-8", "surrogateescape"))
        return path


def check_position(position: Any, where: str) -> None:
    """How far a checkpoint came, and the best epoch before it."""
    known = position if isinstance(position, dict) else {}
    best = known.get("best")
    sound = all(is_count(known.get(key)) for key in ("epoch", "step", "seed"))
    if best is not None and sound:
        sound = isinstance(best, dict) and is_count(best.get("epoch"))
        sound = sound and is_number(best.get("value"))
    if not sound:
        raise UserError(f"{where}: says no epoch that it was written after; {RESTORE}")


def load_into(engine: Any, arrays: Arrays, path: Path) -> None:
    """A checkpoint's arrays into an engine; what does not fit is the file's fault."""
    try:
        engine.load(arrays)
    except UserError as error:
        raise UserError(f"{path}: {error}; {RESTORE}") from None


def check_free(path: Path) -> None:
    """A folder that holds anything is not written over."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        kind = "a run" if (path / "config.yaml").is_file() else "something else"
        raise UserError(
            f"output {path} already holds {kind}; pass --resume to continue a run, "
            "or another --output"
        )


class Onlooker(RunFolder):
    """The folder as all workers but one have it: they keep the same lines and write nothing."""

    def write(self, line: dict[str, Any]) -> None:
        self.lines.append(line)

    def save_checkpoint(self, arrays: Arrays, position: dict[str, Any], name: str = "last") -> None:
        pass

    def write_predictions(self, bank: Bank, survey: Survey) -> Path:
        return self.path / "predictions.csv"


def open_run(folder: RunFolder | None, config: Config, workers: Workers) -> RunFolder:
    """The run to go on with, or a new one; one worker makes and writes it, the others look on."""
    if workers.main:
        folder = folder or RunFolder.create(config)
        workers.wait()
        return folder
    workers.wait()
    seen = Onlooker(folder.path if folder else Path(config.run.output), config)
    seen.lines = folder.lines if folder else []
    return seen


def _fresh_folder(config: Config) -> Path:
    """runs/debug/night/bi_aten-paper-seed0, with -2, -3, ... while the name is taken."""
    name = f"{config.method.name}-{config.profile.name}-seed{config.run.seed}"
    base = Path("runs") / config.data.benchmark / config.target / name
    path, count = base, 1
    while path.exists():
        count += 1
        path = base.with_name(f"{name}-{count}")
    return path
