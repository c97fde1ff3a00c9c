"""Writes docs/reference.md: every public function and class, from the source.

    python docs/reference.py

It stands beside the page that it writes and only reads files: no framework is imported. Of the
mirror, only modules that ms_biaten does not have are listed; the others have the same names.
"""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/reference.md"
HEAD = """# Reference

Every public function and class by module: signature, and the first line of what it says of itself.
Written by

```
python docs/reference.py
```

from the source; a test holds the page to it. [api.md](api.md) shows the ones to begin with.
`torch_ref` has the modules of `ms_biaten` under the same names; listed at the end is what it has
beside them.
"""


def modules():
    """Dotted name -> file, ms_biaten first; of torch_ref what is not mirrored."""
    ours = files_of("ms_biaten")
    mirrored = {name.removeprefix("ms_biaten") for name in ours}
    theirs = files_of("torch_ref")
    apart = {n: f for n, f in theirs.items() if n.removeprefix("torch_ref") not in mirrored}
    return {**ours, **apart}


def files_of(package):
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[-1] != "__main__":
            found[".".join(parts).removesuffix(".__init__")] = path
    return dict(sorted(found.items()))


def public(body):
    kinds = (ast.FunctionDef, ast.ClassDef)
    return [node for node in body if isinstance(node, kinds) and not node.name.startswith("_")]


def first_line(node):
    return (ast.get_docstring(node) or "").split("\n\n")[0].replace("\n", " ").strip()


def signature(node):
    """As it is called: names and defaults, without types and without `self`."""
    given = node.args
    plain = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(plain) - len(given.defaults)) + list(given.defaults)
    parts = [_part(arg, default) for arg, default in zip(plain, defaults, strict=True)]
    if parts and plain[0].arg in ("self", "cls"):
        parts = parts[1:]
    if given.vararg:
        parts.append(f"*{given.vararg.arg}")
    elif given.kwonlyargs:
        parts.append("*")
    parts += map(_part, given.kwonlyargs, given.kw_defaults)
    if given.kwarg:
        parts.append(f"**{given.kwarg.arg}")
    return f"({', '.join(parts)})"


def _part(argument, default):
    return argument.arg if default is None else f"{argument.arg}={_shown(default)}"


def _shown(default):
    """A dataclass field's factory as what it makes."""
    if not (isinstance(default, ast.Call) and ast.unparse(default.func) == "field"):
        return ast.unparse(default)
    made = [key.value for key in default.keywords if key.arg == "default_factory"]
    return f"{made[0].id}()" if made and isinstance(made[0], ast.Name) else "..."


def fields(node):
    """What a dataclass is made of, in order."""
    if not any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list):
        return None
    named = [part for part in node.body if isinstance(part, ast.AnnAssign)]
    return f"({', '.join(_part(ast.arg(ast.unparse(p.target)), p.value) for p in named)})"


def is_property(node):
    return any(ast.unparse(decorator) == "property" for decorator in node.decorator_list)


def lines_of(node, prefix=""):
    """A function, or a class and its methods; a method without a word of its own is left out."""
    name, said = prefix + node.name, first_line(node)
    if isinstance(node, ast.FunctionDef):
        call = "" if is_property(node) else signature(node)
        yield f"- `{name}{call}`" + (f": {said}" if said else "")
        return
    start = [part for part in node.body if getattr(part, "name", "") == "__init__"]
    call = fields(node) or (signature(start[0]) if start else "")
    yield f"- class `{name}{call}`" + (f": {said}" if said else "")
    for part in public(node.body):
        if isinstance(part, ast.FunctionDef) and first_line(part):
            yield from (f"  {line}" for line in lines_of(part, f"{name}."))


def page():
    text = [HEAD]
    for name, path in modules().items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        listed = [line for node in public(tree.body) for line in lines_of(node)]
        if listed:
            said = first_line(tree)
            text.append("\n".join([f"## {name}", *([said, ""] if said else []), *listed]) + "\n")
    return "\n".join(text)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"written: {PAGE.relative_to(ROOT)}\n")
