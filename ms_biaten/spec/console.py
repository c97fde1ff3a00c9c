"""What a run prints: one line per epoch, one table at the end."""

from __future__ import annotations

from typing import Any

from tqdm import tqdm

METHOD_TITLES = {
    "bi_aten": "Bi-ATEN",
    "aten": "ATEN",
    "uniform": "uniform weights, same losses",
    "avg_ens": "AVG-ENS",
    "bn_only": "BN re-estimated, nothing trained",
}


def say(text: str) -> None:
    tqdm.write(text)  # never tears a progress bar that is on the screen


def epoch_line(line: dict[str, Any], epochs: int) -> str:
    parts = [f"epoch {line['epoch']:>{len(str(epochs))}}/{epochs}"]
    trained = line["kind"] == "epoch"
    parts.append(("one-hot" if line["one_hot"] else "learned") if trained else "start  ")
    if "accuracy" in line:
        parts.append(f"accuracy {line['accuracy']:5.1f}")
    parts.append(f"entropy {line['entropy']:.3f} IM {line['im']:.3f} SND {line['snd']:.3f}")
    if trained:
        terms = f"ce {line['ce']:.3f} im {line['im_loss']:.3f} intra {line['intra']:.3f}"
        parts.append(f"L {line['loss']:.3f} ({terms})")
    return "  ".join(parts)


def final_table(lines: list[dict[str, Any]], method: str, domains: tuple[str, ...]) -> str:
    """Each source alone, their average, the adapted model: accuracy, or its label-free measures."""
    start, final = lines[0], lines[-1]
    title = METHOD_TITLES[method]
    weights = ", ".join(f"{d} {w:.2f}" for d, w in zip(domains, final["beta"], strict=True))
    rule = f"{final['rule']} epoch"
    if final["rule"] not in ("last", "oracle"):
        rule = f"best {final['rule']}, label-free"
    if final["oracle"]:
        rule = "ORACLE: chosen with the target's labels, not a fair result"
    rows = [(name, value) for name, value in start["baselines"].items()]
    if "accuracy" in final:
        rows.append((title, final["accuracy"]))
        width = max(len(name) for name, _ in rows)
        text = [f"{'':{width}}  accuracy"]
        text += [f"{name:{width}}  {value:8.1f}" for name, value in rows]
    else:
        text = [
            f"{title}: no target labels; entropy {final['entropy']:.3f}, IM {final['im']:.3f}, "
            f"SND {final['snd']:.3f}"
        ]
    text.append(f"selected: epoch {final['selected_epoch']} ({rule}); mean weights: {weights}")
    return "\n".join(text)
