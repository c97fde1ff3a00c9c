"""The report in a real browser: it draws, it complains of nothing, it asks the network for nothing.

Needs Chromium or Chrome; `.ci/run` installs it where it can.
"""

import json
import shutil
import subprocess

import pytest
from PIL import Image

from ms_biaten.cli import main
from ms_biaten.spec.report.command import write_report
from tests.conftest import SMALL

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium or google-chrome on the path")

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--enable-logging=stderr",
    "--v=0",
    "--host-resolver-rules=MAP * ~NOTFOUND",  # what the browser itself would ask for fails, too
)


def visit(page, folder, *options):
    """The browser's output and errors, and the addresses that the page asked the network for."""
    log = folder / "net.json"
    places = [f"--user-data-dir={folder / 'profile'}", f"--log-net-log={log}"]
    done = subprocess.run(
        [BROWSER, *FLAGS, *places, *options, page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    record = json.loads(log.read_text())
    started = record["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
    jobs = [event.get("params", {}) for event in record["events"] if event["type"] == started]
    # The initiator of the browser's own requests is "not an origin".
    asked = [job["url"] for job in jobs if "url" in job and job["initiator"] != "not an origin"]
    return done, [url for url in asked if not url.startswith(("file:", "data:"))]


def test_what_is_looked_for_would_be_seen(tmp_path):
    """A page that asks for an image and fails in a script is caught by the same means."""
    page = tmp_path / "page.html"
    page.write_text('<img src="http://leak.invalid/x.png"><script>nothing()</script>')
    done, asked = visit(page, tmp_path, "--dump-dom")
    assert asked == ["http://leak.invalid/x.png"]
    assert "CONSOLE" in done.stderr


def test_the_page_in_a_browser(tmp_path):
    run = tmp_path / "run"
    assert main(["train", *SMALL, "--set", "train.epochs=1", "--output", str(run)]) == 0
    done, asked = visit(write_report(run, "ms-biaten"), tmp_path, "--dump-dom")
    assert asked == []
    assert "CONSOLE" not in done.stderr
    assert done.stdout.count("<svg role=") == 6
    assert done.stdout.count("<section ") == 9

    shot = tmp_path / "shot.png"
    _, asked = visit(
        run / "report.html", tmp_path, f"--screenshot={shot}", "--window-size=1000,5000"
    )
    assert asked == []
    with Image.open(shot) as image:
        colours = {colour: n for n, colour in image.convert("RGB").getcolors(1 << 24)}
    for drawn in ((0x00, 0x72, 0xB2), (0xE6, 0x9F, 0x00), (0x56, 0xB4, 0xE9)):  # bars of figures
        assert colours.get(drawn, 0) > 1000
