"""The tables of docs/reliability.md from the records in benchmarks/results.

python -m benchmarks.reliability            prints them; a test holds the page to them
"""

from benchmarks.tables import markdown, record


def kills():
    """What was killed, at random moments and before every write."""
    titles = {"random": "a random moment", "every_write": "before every write"}
    found, rows = record("kills"), []
    for key in titles:
        for name, part in found[key].items():
            counts = [part[k] for k in ("kills", "clean_resumes", "lost", "corrupt", "runs")]
            rows.append((name, titles[key], *counts))
    header = ("what", "killed at", "kills", "clean resumes", "lost", "corrupt", "whole runs")
    return markdown(header, rows)


def soak():
    found = record("soak")
    row = (
        found["epochs"],
        f"{found['warm_mb']:,.0f} (epoch {found['warm_epoch']})",
        f"{found['end_mb']:,.0f}",
        f"{found['end_percent']:+.2f}%",
        f"{found['worst_percent']:+.2f}%",
    )
    header = ("epochs", "warm, MB", "at the end, MB", "change", "farthest in between")
    return markdown(header, [row])


if __name__ == "__main__":
    print(f"{kills()}\n\n{soak()}")
