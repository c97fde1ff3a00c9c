"""The folder of one run: resolved config, results by epoch, checkpoints, predictions.

config.yaml                     run it again with --config
results.jsonl                   one line per epoch, the first with the versions, the last a summary
checkpoints/last.safetensors    weights, optimiser state, clusters, pseudo labels; position
checkpoints/before.safetensors  what was `last` before it
checkpoints/best.safetensors    the selected epoch, where the rule is not `last`
checkpoints/best_before.safetensors  what was `best` before it
predictions.csv                 sample, class, confidence, weight of each source
report.html                     all of it as a page, by `spec/report`
stopped.json                    only where numbers became NaN or Inf: what, where, what to try
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
from ms_biaten.spec.checkpoints import RESTORE, Checkpoints
from ms_biaten.spec.config import Config
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.files import UNFINISHED, remove_unfinished, sync_folder, write_atomically
from ms_biaten.spec.history import check_lines, read_lines
from ms_biaten.spec.loading import differences, dump, from_tree
from ms_biaten.spec.locks import Lock
from ms_biaten.spec.metrics import Survey
from ms_biaten.spec.reading import read_yaml
from ms_biaten.spec.weights import Arrays
from ms_biaten.spec.workers import Workers

FILES = (
    *("config.yaml", "results.jsonl", "predictions.csv", "model.json", "report.html"),
    "stopped.json",
)

# Where a run happens, and how often it is saved, does not change what it computes.
PLACE = (
    *("run.output", "run.device", "run.checkpoint_seconds", "run.image_batch"),
    *("data.placement", "data.models", "data.images", "data.workers"),
)


class RunFolder:
    def __init__(self, path: Path, config: Config):
        self.path, self.config = path, config
        self.checkpoints = Checkpoints(path / "checkpoints")
        self.lines: list[dict[str, Any]] = []
        self._pending: tuple[Arrays, dict[str, Any]] | None = None  # a checkpoint not yet on disk
        self._saved = time.monotonic()
        self._lock: Lock | None = None

    # -- opening -------------------------------------------------------------------------------

    @classmethod
    def create(cls, config: Config) -> RunFolder:
        """A new folder; one that holds anything already is refused."""
        path = Path(config.run.output)
        try:
            if config.run.output:
                check_free(path)
                path.mkdir(parents=True, exist_ok=True)
            else:
                path = _fresh_folder(config)
            folder = cls(path, config)
            folder._hold()
            try:
                check_free(path)  # once more: now nobody else begins in it
                with write_atomically(path / "config.yaml") as file:
                    file.write(dump(config).encode())
                sync_folder(path.parent)
            except BaseException:
                folder.__exit__()
                raise
        except OSError as error:
            raise UserError(f"output {path}: cannot be written ({error.strerror})") from None
        return folder

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
        return cls(path, config or saved)

    @classmethod
    def begun_or_new(cls, config: Config) -> RunFolder:
        """The run in the folder that the config names, where there is one."""
        path = Path(config.run.output)
        begun = (path / "config.yaml").is_file()
        return cls.reopen(path, config) if begun else cls.create(config)

    def __enter__(self) -> RunFolder:
        """From here on nobody else writes in it; what a killed process left half-done goes."""
        self._hold()
        self.lines = read_lines(self.path / "results.jsonl")
        check_lines(self.lines, self.path / "results.jsonl")
        return self

    def __exit__(self, *error: object) -> None:
        if self._lock:
            self._lock.release()
            self._lock = None

    def _hold(self) -> None:
        if self._lock is None:
            self._lock = Lock(self.path / ".lock", self.path)
            remove_unfinished(self.path, *FILES)
            self.checkpoints.remove_unfinished()

    # -- results -------------------------------------------------------------------------------

    def write(self, line: dict[str, Any]) -> None:
        """Appends a line; the file is replaced whole, so a reader never sees half a line."""
        self.lines.append(line)
        with write_atomically(self.path / "results.jsonl") as file:
            file.write("".join(json.dumps(entry) + "\n" for entry in self.lines).encode())

    def rewind(self, epoch: int) -> None:
        """Forgets lines past the checkpoint."""
        self.lines = [
            line for line in self.lines if line["kind"] != "final" and line.get("epoch", 0) <= epoch
        ]

    @property
    def stop_file(self) -> Path:
        return self.path / "stopped.json"

    def write_stop(self, found: dict[str, Any]) -> None:
        """Why a run stopped, as `guard` found it."""
        with write_atomically(self.stop_file) as file:
            file.write((json.dumps(found, indent=1) + "\n").encode())

    def went_on(self) -> None:
        """A whole epoch later, what stopped the run is overcome."""
        self.stop_file.unlink(missing_ok=True)

    # -- checkpoints ---------------------------------------------------------------------------

    def checkpoint(self, name: str = "last") -> Path:
        return self.checkpoints.path(name)

    def save_checkpoint(self, arrays: Arrays, position: dict[str, Any], name: str = "last") -> None:
        self.checkpoints.save(name, arrays, position)

    def keep(self, arrays: Arrays, position: dict[str, Any], now: bool = False) -> None:
        """The state after an epoch: to disk where the one there is old enough, or by `flush`."""
        self._pending = arrays, position
        if now or time.monotonic() - self._saved >= self.config.run.checkpoint_seconds:
            self.flush()

    def flush(self) -> None:
        if self._pending is not None:
            self.save_checkpoint(*self._pending)
            self._pending, self._saved = None, time.monotonic()

    def load_checkpoint(self, name: str = "last") -> tuple[Arrays, dict[str, Any]]:
        return self.checkpoints.load(name)

    def go_on(self, position: dict[str, Any]) -> None:
        """Makes the folder as it was at the position: a kill may fall between two writes."""
        self.rewind(position["epoch"])
        self.checkpoints.go_on(position)

    def finished(self) -> bool:
        """To its last line, with weights that are as they were written."""
        if not self.lines or self.lines[-1]["kind"] != "final":
            return False
        return not self.checkpoint().is_file() or self.checkpoints.is_whole("last")

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


def load_into(engine: Any, arrays: Arrays, path: Path) -> None:
    """A checkpoint's arrays into an engine; what does not fit is the file's fault."""
    try:
        engine.load(arrays)
    except UserError as error:
        raise UserError(f"{path}: {error}; {RESTORE}") from None


def check_free(path: Path) -> None:
    """A folder that holds anything is not written over."""
    if path.exists() and (not path.is_dir() or any(map(_counts, path.iterdir()))):
        kind = "a run" if (path / "config.yaml").is_file() else "something else"
        raise UserError(
            f"output {path} already holds {kind}; pass --resume to continue a run, "
            "or another --output"
        )


def _counts(path: Path) -> bool:
    """A process killed in its first moment leaves its lock, or half a file, and no run."""
    return path.name != ".lock" and not path.name.endswith(UNFINISHED)


class Onlooker(RunFolder):
    """The folder as all workers but one have it: they keep the same lines and write nothing."""

    def _hold(self) -> None:
        pass

    def go_on(self, position: dict[str, Any]) -> None:
        self.rewind(position["epoch"])

    def write(self, line: dict[str, Any]) -> None:
        self.lines.append(line)

    def save_checkpoint(self, arrays: Arrays, position: dict[str, Any], name: str = "last") -> None:
        pass

    def write_predictions(self, bank: Bank, survey: Survey) -> Path:
        return self.path / "predictions.csv"

    def write_stop(self, found: dict[str, Any]) -> None:
        pass

    def went_on(self) -> None:
        pass


def open_run(folder: RunFolder | None, config: Config, workers: Workers) -> RunFolder:
    """The run to go on with, or a new one; one worker makes and writes it, the others look on."""
    if workers.main:
        folder = folder or RunFolder.create(config)
        folder._hold()
        workers.wait()
        return folder
    workers.wait()
    return Onlooker(folder.path if folder else Path(config.run.output), config)


def _fresh_folder(config: Config) -> Path:
    """runs/debug/night/bi_aten-paper-seed0, with -2, -3, ... while the name is taken."""
    name = f"{config.method.name}-{config.profile.name}-seed{config.run.seed}"
    base = Path("runs") / config.data.benchmark / config.target / name
    path, count = base, 1
    while True:
        try:
            path.mkdir(parents=True)  # asked and taken in one: another run may begin, too
            return path
        except FileExistsError:
            count += 1
            path = base.with_name(f"{name}-{count}")
