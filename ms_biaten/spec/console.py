"""What a run prints: one line per epoch, one table at the end."""

from __future__ import annotations

from typing import Any

from tqdm import tqdm

from ms_biaten.spec import health
from ms_biaten.spec.config import Config
from ms_biaten.spec.errors import visible

METHOD_TITLES = {  # in the order of a table
    "avg_ens": "AVG-ENS",
    "bn_only": "BN re-estimated",
    "uniform": "uniform weights",
    "aten": "ATEN",
    "bi_aten": "Bi-ATEN",
    "shot": "SHOT, averaged",
    "decision": "DECISION",
    "caida": "CAiDA",
    "date": "DATE",
}


def title_of(config: Config) -> str:
    title, weights = METHOD_TITLES[config.method.name], config.method.weights
    return {"native": title, "aten": f"{title} + ATEN", "uniform": f"{title}, uniform"}[weights]


FURTHER_TERMS = ("intra", "consistency", "diversity")


def say(text: str) -> None:
    # Names of files and classes are shown, not obeyed by the terminal.
    shown = "\n".join(map(visible, text.split("\n")))
    tqdm.write(shown)  # never tears a progress bar that is on the screen


def epoch_line(line: dict[str, Any], epochs: int) -> str:
    parts = [f"epoch {line['epoch']:>{len(str(epochs))}}/{epochs}"]
    trained = line["kind"] == "epoch"
    if line.get("one_hot") is not None or not trained:
        parts.append(("one-hot" if line["one_hot"] else "learned") if trained else "start  ")
    if "accuracy" in line:
        parts.append(f"accuracy {line['accuracy']:5.1f}")
    parts.append(f"entropy {line['entropy']:.3f} IM {line['im']:.3f} SND {line['snd']:.3f}")
    if trained:
        terms = f"ce {line['ce']:.3f} im {line['im_loss']:.3f}"
        terms += "".join(f" {t} {line[t]:.3f}" for t in FURTHER_TERMS if t in line)
        parts.append(f"L {line['loss']:.3f} ({terms})")
    return "  ".join(parts)


def final_table(runs: dict[str, list[dict[str, Any]]], domains: tuple[str, ...]) -> str:
    """Each source alone, their average, each method: accuracy, or measures that need no labels.

    `runs` are the results of the methods that ran; the first is the one that was asked for.
    """
    lines = next(iter(runs.values()))
    start, final = lines[0], lines[-1]
    finals = {METHOD_TITLES[m]: runs[m][-1] for m in METHOD_TITLES if m in runs}
    if "accuracy" in final:
        heads = ["accuracy"]
        rows = [(name, [value]) for name, value in start.get("baselines", {}).items()]
        rows += [(name, [line["accuracy"]]) for name, line in finals.items()]
    else:
        heads = ["entropy", "IM", "SND"]
        rows = [(name, [ln["entropy"], ln["im"], ln["snd"]]) for name, ln in finals.items()]
    width = max(len(name) for name, _ in rows)
    digits = 1 if "accuracy" in final else 3
    text = [f"{'':{width}}" + "".join(f"{head:>10}" for head in heads)]
    text += [
        f"{name:{width}}" + "".join(f"{v:10.{digits}f}" for v in values) for name, values in rows
    ]
    if "accuracy" not in final:
        text.append("no target labels: no accuracy")
    weights = ", ".join(f"{d} {w:.2f}" for d, w in zip(domains, final["beta"], strict=True))
    text.append(f"selected: epoch {final['selected_epoch']} ({rule_of(final)})")
    text.append(f"mean weights: {weights}")
    text += [health.as_line(sign) for sign in final.get("warnings", [])]
    return "\n".join(text)


def rule_of(final: dict[str, Any]) -> str:
    if final["oracle"]:
        return "ORACLE: chosen with the target's labels, not a fair result"
    if final["rule"] == "last":
        return "last epoch"
    return f"best {final['rule']}, label-free"
