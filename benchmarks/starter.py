"""Starts commands and kills them: a process that has imported a framework and forks for each start.

    python -m benchmarks.starter ms_biaten

reads a JSON line for each start and answers with one. Importing takes longer than the runs that are
killed here, and writes nothing; neither framework has run a kernel before the fork.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.measuring import ROOT

WRITES = ("os.rename", "os.remove", "os.link", "os.mkdir", "os.truncate", "os.rmdir")
LIMIT = 600  # seconds: a command that takes longer hangs


class Starter:
    """The process, as whoever kills sees it."""

    def __init__(self, package):
        command = [sys.executable, "-m", "benchmarks.starter", package]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        # One thread each: several runs share the cores.
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(command, cwd=ROOT, text=True, env=environment, **pipes)

    def run(self, arguments, place, seconds=None, before=None):
        """`seconds`: when it is killed. `before`: the number of the write it is killed before."""
        asked = {"arguments": arguments, "place": str(place), "seconds": seconds, "before": before}
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def kill_before(number, place):
    """SIGKILL right before the n-th operation that changes the folder: every gap can be hit."""
    inside, count = os.path.realpath(place), 0

    def look(event, arguments):
        nonlocal count
        if event == "open":
            writes = isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        else:
            writes = event in WRITES
        if not writes or not isinstance(arguments[0], (str, bytes, os.PathLike)):
            return
        path = os.path.realpath(os.fsdecode(arguments[0]))
        if path.startswith(inside):
            count += 1
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(look)


def child(main, asked):
    """In the fork: the command itself, with its words in a file beside the folder."""
    place = Path(asked["place"])
    with place.with_suffix(".log").open("ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(place)
    if asked["before"]:
        kill_before(asked["before"], place)
    code = 70
    try:
        code = main(asked["arguments"])
    except SystemExit as stop:
        code = stop.code
    finally:
        sys.stdout.flush()
        os._exit(code)


def answer(main, asked):
    started = time.monotonic()
    pid = os.fork()
    if not pid:
        child(main, asked)
    limit = LIMIT if asked["seconds"] is None else asked["seconds"]
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        passed = time.monotonic() - started
        if found:
            break
        if passed >= limit:
            os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
            break
        time.sleep(0.002)
    code = os.waitstatus_to_exitcode(status)
    return {"killed": code == -signal.SIGKILL, "code": code, "seconds": passed}


def serve(package):
    importlib.import_module(f"{package}.backend")
    main = importlib.import_module(f"{package}.cli").main
    from ms_biaten.spec import extracting

    extracting.SAVE_EVERY = 1  # batches: a kill may fall between any two
    for line in sys.stdin:
        print(json.dumps(answer(main, json.loads(line))), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1])
