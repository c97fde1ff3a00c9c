"""`lists`: the list files of a benchmark, made from the folders `<images>/<domain>/<class>/`."""

from __future__ import annotations

import argparse
from pathlib import Path

from ms_biaten.spec.benchmarks import Benchmark, benchmark
from ms_biaten.spec.errors import UserError
from ms_biaten.spec.files import write_atomically
from ms_biaten.spec.lists import ImageList, class_folders, scan_classes, write_list
from ms_biaten.spec.orders import ORDERS, class_order, known_orders

ALIASES = {"caltech": ("caltech10",)}  # how releases name a domain's folder beside its own name


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--benchmark", required=True, help=", ".join(ORDERS))
    parser.add_argument("--images", required=True, type=Path, help="holds <domain>/<class>/...")
    parser.add_argument("--output", required=True, type=Path, help="folder of the new files")
    parser.add_argument("--order", help="of the classes, for example 'lists' (docs/benchmarks.md)")


def lists_command(options: argparse.Namespace, backend: str, program: str) -> None:
    make_lists(benchmark_of(options.benchmark), options.images, options.order, options.output)


def make_lists(bench: Benchmark, images: Path, order: str | None, output: Path) -> None:
    """`<domain>.txt` with lines `path label`, and classes.txt; says what they hold."""
    classes = order_named(bench.name, order)
    lists = scan_benchmark(bench, images, classes)
    write_lists(output, lists, classes)
    print(table(lists, classes))
    print(f"in {output}: {', '.join(f'{d}.txt' for d in lists)}, classes.txt")


def benchmark_of(name: str) -> Benchmark:
    bench = benchmark(name)
    if name not in ORDERS:
        raise UserError(
            f"--benchmark {name}: lists are made for {', '.join(ORDERS)}; see docs/own-data.md for "
            "your own images, docs/emoji.md for emoji"
        )
    return bench


def order_named(name: str, order: str | None) -> tuple[str, ...]:
    if order is not None and order not in ORDERS[name]:
        raise UserError(f"--order {order}: {name} has {', '.join(ORDERS[name])}")
    return class_order(f"{name}/{order}" if order else name)


def scan_benchmark(bench: Benchmark, root: Path, classes: tuple[str, ...]) -> dict[str, ImageList]:
    """The images of every domain, sorted, named relative to the root."""
    folders = class_folders(root)
    lists = {}
    for domain in bench.domains:
        folder = domain_folder(domain, folders, root)
        check_class_folders(bench.name, root / folder, classes)
        found = scan_classes(root / folder, classes)
        assert found.labels is not None
        pairs = sorted(zip((f"{folder}/{n}" for n in found.names), found.labels, strict=True))
        names, labels = zip(*pairs, strict=True)
        lists[domain] = ImageList(root, names, labels)
    return lists


def domain_folder(domain: str, folders: tuple[str, ...], root: Path) -> str:
    """Real_World may be 'RealWorld' or 'real world': letters and digits count, their case not."""
    wanted = {plain(name) for name in (domain, *ALIASES.get(domain, ()))}
    found = [name for name in folders if plain(name) in wanted]
    if len(found) > 1:
        raise UserError(f"{root}: {' and '.join(found)} may both be domain '{domain}'; keep one")
    if not found:
        raise UserError(
            f"{root}: no folder of domain '{domain}'; there are: {', '.join(folders) or 'none'}"
        )
    return found[0]


def plain(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()


def check_class_folders(name: str, folder: Path, classes: tuple[str, ...]) -> None:
    """Each class has its folder, and there is no other."""
    found = set(class_folders(folder))
    missing = [c for c in classes if c not in found]
    if not missing and len(found) == len(classes):
        return
    for order in known_orders(name):
        if set(class_order(order)) == found:
            raise UserError(
                f"{folder}: its folders are the classes of {order}; pass --order "
                f"{order.partition('/')[2]}"
            )
    if missing:
        raise UserError(f"{folder}: no folder of class '{missing[0]}'{and_more(missing)}")
    extra = sorted(found - set(classes))
    raise UserError(
        f"{folder / extra[0]}: not a class of {name}{and_more(extra)}; move it elsewhere"
    )


def and_more(names: list[str]) -> str:
    return f" (and {len(names) - 1} more)" if len(names) > 1 else ""


def write_lists(output: Path, lists: dict[str, ImageList], classes: tuple[str, ...]) -> None:
    output.mkdir(parents=True, exist_ok=True)
    for domain, images in lists.items():
        write_list(output / f"{domain}.txt", images)
    with write_atomically(output / "classes.txt") as file:
        file.write("".join(f"{name}\n" for name in classes).encode())


def table(lists: dict[str, ImageList], classes: tuple[str, ...]) -> str:
    """Images of each domain, and of its smallest and its largest class."""
    rows = [f"{'domain':<12}{'images':>8}  smallest class, largest class"]
    for domain, images in lists.items():
        counts = [0] * len(classes)
        for label in images.labels or ():
            counts[label] += 1
        least, most = counts.index(min(counts)), counts.index(max(counts))
        rows.append(
            f"{domain:<12}{len(images):>8}  {counts[least]} ({classes[least]}), "
            f"{counts[most]} ({classes[most]})"
        )
    return "\n".join(rows)
