"""The page: header, notes, sections, style; one file from which no request leaves."""

from __future__ import annotations

import time
from pathlib import Path

from ms_biaten.spec import console
from ms_biaten.spec.history import Line
from ms_biaten.spec.report.drawing import inline_svg
from ms_biaten.spec.report.markup import Markup, join, tag
from ms_biaten.spec.report.sections import Section
from ms_biaten.spec.report.story import Story

# The browser itself refuses scripts and anything that is not in this file.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def render(story: Story, sections: list[Section]) -> str:
    css = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("link", rel="icon", href="data:,"),
        tag("title", title_of(story)),
        tag("style", Markup(css)),
    )
    contents = [tag("a", section.title, href=f"#{section.name}") for section in sections]
    body = tag(
        "main",
        header(story),
        tag("nav", *contents, aria_label="Contents"),
        *(element(section) for section in sections),
    )
    return "<!doctype html>\n" + tag("html", head, tag("body", body), lang="en") + "\n"


def title_of(story: Story) -> str:
    config = story.history.config
    return f"{console.title_of(config)} on {config.data.benchmark} → {config.target}"


def header(story: Story) -> Markup:
    config, last = story.history.config, story.history.last
    return tag(
        "header",
        tag("p", "ms_biaten report", class_="kind"),
        tag("h1", title_of(story)),
        tag("p", f"{', '.join(story.domains)} → {config.target}", class_="domains"),
        headline(last, story.history.final is not None) if last else "",
        selection(story),
        *(tag("p", note, class_="note") for note in story.notes),
        facts(story),
    )


def headline(line: Line, finished: bool) -> Markup:
    """The accuracy, or the measures that need no labels."""
    if "accuracy" in line:
        numbers = [(f"{line['accuracy']:.1f} %", "accuracy" if finished else "accuracy so far")]
        if "class_accuracy" in line:
            numbers.append((f"{line['class_accuracy']:.1f} %", "mean over classes"))
    else:
        numbers = [(f"{line[key]:.3f}", key) for key in ("im", "snd", "entropy")]
        numbers = [(value, {"im": "IM", "snd": "SND"}.get(key, key)) for value, key in numbers]
    return tag(
        "p",
        *(tag("span", tag("b", value), f" {what}") for value, what in numbers),
        class_="numbers",
    )


def selection(story: Story) -> Markup:
    final = story.history.final
    if final is None:
        return Markup("")
    text = f"Selected: epoch {final['selected_epoch']} ({console.rule_of(final)})"
    return tag("p", text, class_="oracle" if final.get("oracle") else "selected")


def facts(story: Story) -> Markup:
    history, config = story.history, story.history.config
    start = history.start or {}
    versions = {k: v for k, v in start.get("versions", {}).items() if k != "framework"}
    rows = {
        "method": f"{console.title_of(config)}, {config.profile.name} profile",
        "seed": config.run.seed,
        "epochs": f"{len(history.epochs)} of {history.planned}" if history.planned else "none",
        "samples": len(story.predictions.samples) if story.predictions else "",
        "classes": len(story.classes) or "",
        "trained parameters": f"{start['trained_parameters']:,}"
        if "trained_parameters" in start
        else "",
        "time": f"{history.final['seconds']:.0f} s on {config.run.device}"
        if history.final and "seconds" in history.final
        else "",
        "results of": _written(history.path / "results.jsonl"),
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
    }
    return tag("dl", *(tag("div", tag("dt", k), tag("dd", v)) for k, v in rows.items() if v != ""))


def element(section: Section) -> Markup:
    parts: list[Markup] = []
    if section.figure:
        drawn = Markup(inline_svg(section.figure, section.name, section.title))
        parts.append(tag("figure", tag("div", drawn, class_="wide")))
    if section.body:
        parts.append(section.body)
    title, caption = tag("h2", section.title), tag("p", section.caption, class_="caption")
    return tag("section", join(title, caption, *parts), id=section.name)


def _written(path: Path) -> str:
    if not path.is_file():
        return ""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(path.stat().st_mtime))
