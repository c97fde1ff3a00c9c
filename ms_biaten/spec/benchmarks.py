"""The benchmarks by name: their domains in the order that the query of Eq. (8) concatenates."""

from __future__ import annotations

from dataclasses import dataclass

from ms_biaten.spec.checks import is_plain_name
from ms_biaten.spec.errors import UserError, nearest


@dataclass(frozen=True)
class Benchmark:
    """A set of domains with the same classes."""

    name: str
    title: str
    domains: tuple[str, ...]
    class_count: int  # 0 where the bank says it

    @property
    def open(self) -> bool:
        """Own data: any target, and the sources and classes that its bank names."""
        return not self.domains

    def sources(self, target: str) -> tuple[str, ...]:
        """Every other domain, in the benchmark's order."""
        self.check_target(target)
        if self.open:
            raise UserError("own data: its sources are those that its bank names")
        return tuple(domain for domain in self.domains if domain != target)

    def check_target(self, target: str) -> None:
        if self.open:
            if not is_plain_name(target):
                raise UserError(f"target '{target}': expected a plain name for your images")
        elif target not in self.domains:
            raise UserError(
                f"target '{target}' is not a domain of {self.name}; {nearest(target, self.domains)}"
            )


BENCHMARKS = {
    b.name: b
    for b in (
        Benchmark("emoji", "Emoji", ("noto", "twemoji", "fluent", "contrast", "monotone"), 12),
        Benchmark("debug", "Debug (synthetic)", ("dawn", "noon", "dusk", "night"), 7),
        Benchmark(
            "domainnet",
            "DomainNet",
            ("clipart", "infograph", "painting", "quickdraw", "real", "sketch"),
            345,
        ),
        Benchmark("office_home", "Office-Home", ("Art", "Clipart", "Product", "Real_World"), 65),
        Benchmark("own", "Own data", (), 0),
        Benchmark("office_caltech", "Office-Caltech", ("amazon", "caltech", "dslr", "webcam"), 10),
    )
}


def benchmark(name: str) -> Benchmark:
    """The benchmark of this name; a misspelt one is told the nearest."""
    if name not in BENCHMARKS:
        raise UserError(f"benchmark '{name}' does not exist; {nearest(name, BENCHMARKS)}")
    return BENCHMARKS[name]
