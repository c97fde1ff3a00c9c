"""Cases one after the other, in a process that is watched and limited.

python -m benchmarks.fuzz.worker NAME[,NAME...] SEED FIRST LAST FOLDER    a JSON line for each case
"""

import contextlib
import io
import json
import os
import random
import resource
import shutil
import sys
import time
import traceback
from pathlib import Path

from benchmarks.fuzz.loaders import LOADERS
from benchmarks.fuzz.mutators import CANARY
from ms_biaten.spec.errors import RunError, UserError

MEMORY = 3 << 30  # bytes that a case may add to the process
RUNS_CODE = ("os.system", "os.exec", "os.posix_spawn", "os.spawn", "subprocess.Popen", "os.fork")
TELLS = ("socket.connect", "socket.getaddrinfo", "ctypes.dlopen", "shutil.rmtree")
executed = []  # what the interpreter itself reports while a case is read


def watch(event, arguments):
    if watch.on and event in (*RUNS_CODE, *TELLS):
        executed.append(f"{event} {str(arguments)[:80]}")
    if watch.on and event == "open" and OUTSIDE in str(arguments[0]):
        executed.append(f"{event} {str(arguments)[:80]}")


watch.on = False
OUTSIDE = "outside"  # a file beside the root that hostile names lead to


def case_files(loader, pristine, seed, number):
    """What this case changes: {name of a file: its damaged content}."""
    rng = random.Random(f"{loader.name} {seed} {number}")
    name = rng.choice(list(loader.damage))
    return name, loader.damage[name](rng, pristine[name])


def attempt(loader, folder, pristine, seed, number):
    """One case: its verdict, and what there is to say about it."""
    name, content = case_files(loader, pristine, seed, number)
    for path, whole in pristine.items():
        (folder / path).write_bytes(content if path == name else whole)
    Path(CANARY).unlink(missing_ok=True)
    executed.clear()
    told = io.StringIO()
    reset_peak()
    before, start = memory("VmRSS"), time.process_time()
    verdict, why = "accepted", ""
    try:
        watch.on = True
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
            loader.read(folder)
    except (UserError, RunError) as error:
        verdict, why = judged(str(error), loader, folder / name)
    except BaseException:
        verdict, why = "traceback", traceback.format_exc()
    finally:
        watch.on = False
    grown = max(0, memory("VmHWM") - before)
    if "\x1b[2J" in told.getvalue():
        verdict, why = "traceback", f"a terminal code was printed: {told.getvalue()[:200]!r}"
    if executed or Path(CANARY).exists():
        verdict, why = "executed", f"{executed} {Path(CANARY).exists()}"
    if verdict not in ("accepted", "refused"):
        failures = folder.parents[1] / "failures"
        failures.mkdir(exist_ok=True)
        (failures / f"{loader.name}-{number}-{Path(name).name}").write_bytes(content)
    seconds = round(time.process_time() - start, 3)
    return {"case": number, "verdict": verdict, "seconds": seconds, "grown_mb": grown, "why": why}


def judged(message, loader, path):
    """A clear error is one line that names the file, or the key where a key is what is wrong."""
    named = not loader.named or path.name in message or str(Path.cwd()) in message
    if not message.isprintable():
        return "traceback", f"more than one plain line: {message!r}"
    return ("refused", message) if named else ("traceback", f"names no file: {message}")


def memory(key):
    """MB of this process; the peak is the one since `reset_peak`."""
    status = Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith(key))
    return int(line.split()[1]) // 1024


def reset_peak():
    Path("/proc/self/clear_refs").write_text("5")


def main(names, seed, first, last, folder):
    report = os.fdopen(os.dup(1), "w")
    sys.addaudithook(watch)
    for name in names.split(","):
        loader, place = LOADERS[name], Path(folder, name)
        pristine = prepare(loader, place)
        print(json.dumps({"ready": name}), file=report, flush=True)
        for number in range(int(first), int(last)):
            verdict = attempt(loader, place / "files", pristine, seed, number)
            print(json.dumps({"loader": name, **verdict}), file=report, flush=True)


def prepare(loader, folder):
    """The sound files, which are accepted; what the process may take from here on is limited."""
    shutil.rmtree(folder, ignore_errors=True)
    root = folder / "files"
    root.mkdir(parents=True)
    log = os.open(folder.parent / f"{loader.name}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.chdir(folder)
    (folder / OUTSIDE).write_bytes(b"not for you")
    loader.make(root)
    pristine = {path: (root / path).read_bytes() for path in loader.damage}
    loader.read(root)
    most = memory("VmSize") * 2**20 + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
    return pristine


if __name__ == "__main__":
    main(*sys.argv[1:])
