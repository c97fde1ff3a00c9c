"""Cases of one loader, one after the other, in a process that is watched and limited.

python -m benchmarks.fuzz.worker NAME SEED FIRST LAST FOLDER     a JSON line for each case
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
    before, start = memory("VmRSS"), time.perf_counter()
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
    seconds = round(time.perf_counter() - start, 3)
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


def main(name, seed, first, last, folder):
    loader, folder = LOADERS[name], Path(folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    report = os.fdopen(os.dup(1), "w")
    quiet = os.open(folder.parent / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    os.chdir(folder)
    root = folder / "files"
    root.mkdir()
    (folder / OUTSIDE).write_bytes(b"not for you")
    loader.make(root)
    pristine = {path: (root / path).read_bytes() for path in loader.damage}
    loader.read(root)  # the sound files are accepted
    sys.addaudithook(watch)
    most = memory("VmSize") * 2**20 + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    print(json.dumps({"ready": name}), file=report, flush=True)
    for number in range(int(first), int(last)):
        print(json.dumps(attempt(loader, root, pristine, seed, number)), file=report, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
