"""What mkdocs does to the pages of this site beyond its plugins.

Lines of a page that begin with two colons are replaced:

    ::opening package.module    the docstring of a module: its paragraphs as prose, its indented
                                lines as blocks of code, "Mathematics.  " as a heading
    ::sentence package.module   the first sentence of that docstring
    ::summary                   a table of what the page documents, with the first sentence of each
    ::kernels                   a table of the pages in docs/reference/kernels
    ::algorithms                a table of the planner's registry
    ::index                     the names that each page of the reference documents
    ::rules NAME                a table of the lint's rules of a kind, such as RULES or CONTESTED
    ::readme                    README.md below its title; links lead to pages of this site
    ::changelog                 CHANGELOG.md, likewise with its title

Two forms of GitHub become those of mkdocs: "> [!WARNING]", and the ends "#gh-light-mode-only" and
"#gh-dark-mode-only" of the addresses of pictures.

The pages of kernels are in the navigation by themselves, in the order of the registry.

In the finished page, names in code become links: `trnfft.fft` to its place in the reference,
`torch.fft.fft` to the documentation of torch, and `docs/planner.md` to that page.
"""

from __future__ import annotations

import ast
import functools
import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import griffe

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference"
PACKAGES = ("trnfft", "nki_kernels", "nki_sim")

# Names of modules that users import from trnfft, by the names of their files.
_PUBLIC_MODULES = {
    "trnfft.functions.convolve": "trnfft.convolution",
    "trnfft.functions.point_spread_functions": "trnfft.point_spread_functions",
    "trnfft.planner.order": "trnfft.order",
}

_DOCUMENTED = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)
_OPENING = re.compile(r"^::opening ([\w.]+)$", re.MULTILINE)
_RUN_IN_HEADING = re.compile(r"([A-Z][^.`\n]{2,40})\.  (?=\S)")
# Code, a link, or a character that Markdown would take for a mark.
_MARKDOWN = re.compile(r"(`+)(?:.|\n)*?\1|\[[^\]]+\]\([^)\s]+\)|[\\*_\[\]|&<]")
_PLAIN = {"&": "&amp;", "<": "&lt;", **{mark: f"\\{mark}" for mark in "\\*_[]|"}}

_SHOWN_AS_POWER = 2**14

# Where other projects document the names that begin so. "{}" stands for the whole name.
_TORCH = "https://docs.pytorch.org/docs/stable"
_ELSEWHERE = {
    "torch.Tensor": f"{_TORCH}/tensors.html",
    "torch.dtype": f"{_TORCH}/tensor_attributes.html#torch.dtype",
    "torch.device": f"{_TORCH}/tensor_attributes.html#torch.device",
    "torch.distributed.tensor": f"{_TORCH}/distributed.tensor.html",
    "torch.distributed": f"{_TORCH}/distributed.html",
    "torch.fft": f"{_TORCH}/fft.html",
    "scipy.fft": "https://docs.scipy.org/doc/scipy/reference/fft.html",
    "scipy.signal": "https://docs.scipy.org/doc/scipy/reference/signal.html",
    "torch.func": f"{_TORCH}/func.html",
    "torch.": _TORCH + "/generated/{}.html",
    "torchaudio.transforms.": "https://docs.pytorch.org/audio/stable/generated/{}.html",
    "numpy.": "https://numpy.org/doc/stable/reference/generated/{}.html",
    "scipy.": "https://docs.scipy.org/doc/scipy/reference/generated/{}.html",
}
_NAME_ELSEWHERE = re.compile(r"(?:torch|torchaudio|numpy|scipy)(?:\.\w+)+")

_WITH_LINKS = re.compile(r"<(a|h[1-6]|pre)\b.*?</\1>", re.DOTALL)
_INLINE_CODE = re.compile(r"<code>([^<\n]+)</code>")
_CROSS_REFERENCE = re.compile(
    r'<autoref [^>]*?identifier="?([\w.]+)[^>]*>(.*?)</autoref>', re.DOTALL
)


# The navigation


def on_config(config: Any) -> Any:
    """Returns the configuration with the pages of kernels below that of all kernels."""
    kernels = [{page.title: path} for path, page in kernel_pages().items()]
    _section(config["nav"], "Kernels").extend(kernels)
    return config


def _section(nav: list[Any], title: str) -> list[Any]:
    """Returns the entries of a section, wherever it is in the navigation."""
    for entry in nav:
        ((name, inner),) = entry.items() if isinstance(entry, dict) else [("", entry)]
        if name == title and isinstance(inner, list):
            return inner
        if isinstance(inner, list) and (found := _section(inner, title)):
            return found
    return []


# Lines that are replaced


def on_page_markdown(markdown: str, page: Any = None, **_: Any) -> str:
    """Returns the page with every line that begins with two colons replaced."""
    is_kernel = page is not None and page.file.src_uri.startswith("reference/kernels/")
    level = 2 if is_kernel else None
    replacements = {
        r"^::opening ([\w.]+)$": lambda match: prose(opening(match[1]), level),
        r"^::sentence ([\w.]+)$": lambda match: _escaped(first_sentence(opening(match[1]))),
        r"^::summary$": lambda match: _summary(markdown),
        r"^::kernels$": lambda match: _kernels(),
        r"^::algorithms$": lambda match: algorithms(),
        r"^::index$": lambda match: _index(),
        r"^::readme$": lambda match: _of_root("README.md").removeprefix("# trnfft\n"),
        r"^::changelog$": lambda match: _of_root("CHANGELOG.md"),
        r"^::rules (\w+)$": lambda match: _rules(match[1]),
        r"^> \[!WARNING\]\n> \*\*(.+)\.\*\* ((?:.+\n(?:> )?)+)": _warning,
        r"#gh-(light|dark)-mode-only\)": lambda match: f"#only-{match[1]})",
    }
    for pattern, replacement in replacements.items():
        markdown = re.sub(pattern, replacement, markdown, flags=re.MULTILINE)
    return markdown


def _warning(match: re.Match[str]) -> str:
    body = re.sub(r"^> ", "", match[2], flags=re.MULTILINE)
    return f'!!! warning "{match[1]}"\n\n' + "".join(f"    {line}\n" for line in body.splitlines())


def opening(module: str) -> str:
    """Returns the docstring of a module, which is read and not imported."""
    path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    if not path.is_file():
        path = path.with_suffix("") / "__init__.py"
    docstring = ast.get_docstring(ast.parse(path.read_text("utf-8")))
    assert docstring, f"{module} has no docstring"
    return re.sub(r"(?<!`)\bdocs/\w+\.md\b", _as_code, docstring)


def _as_code(match: re.Match[str]) -> str:
    """A page of this site as code, which becomes a link; other projects have docs/ as well."""
    return f"`{match[0]}`" if (ROOT / match[0]).is_file() else match[0]


def prose(docstring: str, level: int | None = None) -> str:
    """Returns a docstring as Markdown.

    Args:
        docstring: paragraphs, and formulas or drawings that are indented by four spaces.
        level: of the headings that "Mathematics.  " becomes. Default: bold text.
    """
    blocks: list[str] = []
    code: list[str] = []
    for paragraph in [*re.split(r"\n{2,}", docstring), ""]:
        lines = paragraph.splitlines()
        if lines and all(line.startswith("    ") for line in lines):
            code += ["", *(line[4:] for line in lines)]
            continue
        if code:
            blocks.append("\n".join(["```{ .text .no-copy }", *code[1:], "```"]))
            code = []
        title = _RUN_IN_HEADING.match(paragraph)
        if title and level:
            blocks.append(f"{'#' * level} {_escaped(title[1])}")
        start = f"**{_escaped(title[1])}.** " if title and not level else ""
        blocks.append(start + _escaped(paragraph[title.end() if title else 0 :]))
    return "\n\n".join(blocks)


def _escaped(text: str) -> str:
    """Returns prose in which only code and whole links are Markdown: "b* x" has no emphasis."""
    return _MARKDOWN.sub(lambda found: _PLAIN.get(found[0], found[0]), text)


def first_sentence(docstring: str) -> str:
    """Returns the first sentence of a docstring, on one line and without its colon."""
    paragraph = " ".join(docstring.split("\n\n")[0].split())
    sentence = re.match(r"(?:`[^`]*`|[^`])*?[.:](?=\s|$)", paragraph)
    return (sentence[0] if sentence else paragraph).rstrip(".:") + "."


def _summary(markdown: str) -> str:
    rows = ["| Name | Summary |", "| --- | --- |"]
    for name in _DOCUMENTED.findall(markdown):
        sentence = _escaped(first_sentence(_docstring(name)))
        rows.append(f"| [`{shown(name)}`][{name}] | {sentence} |")
    return "\n".join(rows)


def shown(name: str) -> str:
    """Returns the end of a full name that readers know the object by."""
    *_, owner, last = name.split(".")
    if ".distributed." in name and last.islower():
        return f"distributed.{last}"
    return f"{owner}.{last}" if owner in ("nn", "order", "point_spread_functions") else last


def _kernels() -> str:
    rows = ["| Page | What it describes |", "| --- | --- |"]
    for path, page in kernel_pages().items():
        sentence = _escaped(first_sentence(opening(page.module)))
        rows.append(f"| [{page.title}]({path.removeprefix('reference/')}) | {sentence} |")
    return "\n".join(rows)


class KernelPage(NamedTuple):
    """A page in docs/reference/kernels."""

    title: str
    module: str  # whose opening it shows


@functools.cache
def kernel_pages() -> dict[str, KernelPage]:
    """Returns the pages of kernels by their paths in docs/, in the order of the registry."""
    from trnfft.planner.algorithms import ALGORITHMS, PASSES

    found = {}
    for path in sorted((REFERENCE / "kernels").glob("*.md")):
        text = path.read_text("utf-8")
        title, module = re.match(r"# (.+)", text), _OPENING.search(text)
        assert title and module, f"{path.name} has no title or no ::opening"
        found[module[1]] = f"reference/kernels/{path.name}", KernelPage(title[1], module[1])
    every = [*ALGORITHMS.values(), *PASSES.values()]
    modules = list(dict.fromkeys(algorithm.kernel.__module__ for algorithm in every))
    assert set(modules) == set(found), f"pages and kernels differ: {set(modules) ^ set(found)}"
    return dict(found[module] for module in modules)


def algorithms() -> str:
    """Returns the table of the algorithms that the planner knows, those alike in one row."""
    from trnfft.planner.algorithms import ALGORITHMS

    names: dict[tuple[str, str], list[str]] = {}
    for name, algorithm in ALGORITHMS.items():
        sentence = first_sentence(type(algorithm).__doc__ or "").rstrip(".")
        names.setdefault((sentence, _lengths(algorithm)), []).append(f"`{name}`")
    rows = ["| name | what it does | lengths |", "| --- | --- | --- |"]
    for (sentence, lengths), alike in names.items():
        rows.append(f"| {', '.join(alike)} | {_escaped(sentence)} | {lengths} |")
    return "\n".join(rows)


def _lengths(algorithm: Any) -> str:
    """Returns which lengths an algorithm takes: "256 to 2^20"."""
    if algorithm.takes_shapes:
        return str(algorithm.takes)
    shortest, longest = algorithm.shortest, _in_words(algorithm.longest)
    least = f"{_in_words(shortest)} to " if shortest > 2 else "up to "
    if shortest - 1 >= _SHOWN_AS_POWER:
        least = f"above {_in_words(shortest - 1)} to "
    return f"{least}{longest}" + (f"; {algorithm.takes}" if algorithm.takes else "")


def _in_words(n: int) -> str:
    """Returns a length, a long power of two as one."""
    return f"2^{n.bit_length() - 1}" if n >= _SHOWN_AS_POWER and n & (n - 1) == 0 else str(n)


def _index() -> str:
    lines = []
    pages = re.findall(r"- (.+): reference/([\w/]+\.md)$", _configuration(), re.M)
    kernels = [(page.title, path[10:]) for path, page in kernel_pages().items()]
    for title, path in pages + kernels:
        names = _DOCUMENTED.findall((REFERENCE / path).read_text("utf-8"))
        links = ", ".join(f"[`{shown(name)}`][{name}]" for name in names)
        if links:
            lines.append(f"- [{title}]({path}): {links}")
    return "\n".join(lines)


def _rules(kind: str) -> str:
    from nki_sim.base.releases import RELEASES
    from nki_sim.lint import rules

    rows = ["| Rule | NKI | Finding | Source |", "| --- | --- | --- | --- |"]
    for name, (source, message) in getattr(rules, kind).items():
        releases = [one for one in RELEASES if name in rules.rules_of(one)]
        where = ", ".join(releases) or "all"
        rows.append(f"| `{name}` | {where} | {_escaped(message)} | {_escaped(source)} |")
    return "\n".join(rows)


def _of_root(name: str) -> str:
    """Returns a page of the root of the repository, whose links lead to pages of this site."""
    text = (ROOT / name).read_text("utf-8").replace('"docs/', '"')
    pages = {
        "README.md#limits": "index.md#limits",
        "examples/README.md": "gallery.md#what-the-examples-draw",
        "CONTRIBUTING.md": "contributing.md",
        "CHANGELOG.md": "changelog.md",
        "LICENSE": "licences.md",
    }

    def moved(match: re.Match[str]) -> str:
        path = match[1].removeprefix("docs/")
        return f"]({pages.get(path, path)})"

    return re.sub(r"\]\(([^):\s]+)\)", moved, text)


def _configuration() -> str:
    return (ROOT / "mkdocs.yml").read_text("utf-8")


@functools.cache
def _modules() -> Any:
    loader = griffe.GriffeLoader(search_paths=[str(ROOT)])
    for package in PACKAGES:
        loader.load(package)
    loader.resolve_aliases()
    return loader.modules_collection


def _docstring(name: str) -> str:
    found = _modules()[name].docstring
    return found.value if found else ""


# Links


def on_page_content(content: str, page: Any, files: Any, **_: Any) -> str:
    """Returns the finished page with links at the names in its code and its signatures."""
    is_reference = page.file.src_uri.startswith("reference/")

    def with_link(match: re.Match[str]) -> str:
        text = html.unescape(match[1])
        path = text.removeprefix("docs/")
        if is_reference and text != path and path.partition("#")[0].endswith(".md"):
            return _link_to_page(path, page, files)
        if is_reference and text in _pages_of_modules():
            return _link_to_page(_pages_of_modules()[text], page, files, match[0])
        name = text.removesuffix("()")
        if (is_reference or name.startswith("trnfft.")) and name in _names():
            return f'<autoref identifier="{_names()[name]}">{match[0]}</autoref>'
        address = _address(name) if is_reference else None
        return match[0] if address is None else f'<a href="{address}">{match[0]}</a>'

    content = _CROSS_REFERENCE.sub(_to_other_project, content)
    pieces = []
    end = 0
    for found in _WITH_LINKS.finditer(content):
        pieces += [_INLINE_CODE.sub(with_link, content[end : found.start()]), found[0]]
        end = found.end()
    return "".join([*pieces, _INLINE_CODE.sub(with_link, content[end:])])


def _to_other_project(match: re.Match[str]) -> str:
    """A name in a signature, as a link where another project documents it."""
    address = _address(match[1])
    return match[0] if address is None else f'<a href="{address}">{match[2]}</a>'


def _link_to_page(path: str, page: Any, files: Any, shown: str | None = None) -> str:
    """A link to a page of docs/, which shows the title of the page where nothing else is given."""
    path, _, anchor = path.partition("#")
    file = files.get_file_from_path(path)
    assert file is not None, f"{page.file.src_uri} names docs/{path}, which does not exist"
    title = re.search(r"^# (.+)$", (ROOT / "docs" / path).read_text("utf-8"), re.MULTILINE)
    assert title, f"docs/{path} has no title"
    address = file.url_relative_to(page.file) + (f"#{anchor}" if anchor else "")
    return f'<a href="{address}">{shown or html.escape(title[1])}</a>'


def _address(name: str) -> str | None:
    """Returns where another project documents a name, which begins with that of its package."""
    if not _NAME_ELSEWHERE.fullmatch(name):
        return None
    if name in _ELSEWHERE:
        return _ELSEWHERE[name]
    for start, address in _ELSEWHERE.items():
        if start.endswith(".") and name.startswith(start):
            return address.format(name)
    return None


@functools.cache
def _names() -> dict[str, str]:
    """Returns the names that the reference documents: in full, and public ones without package."""
    names = {}
    for name in _documented():
        names[name] = name
        package, _, last = name.rpartition(".")
        # These are names of arguments as well.
        if package in ("trnfft", "trnfft.nn") and last not in ("backend", "precision", "plan"):
            names.setdefault(last, name)
    return names


@functools.cache
def _pages_of_modules() -> dict[str, str]:
    """Returns the page, relative to docs/, that shows the opening of each module."""
    pages = {}
    for page in sorted(REFERENCE.rglob("*.md")):
        for module in _OPENING.findall(page.read_text("utf-8")):
            path = page.relative_to(ROOT / "docs").as_posix()
            pages[module] = pages[_PUBLIC_MODULES.get(module, module)] = path
    return pages


def _documented() -> Iterator[str]:
    for page in sorted(REFERENCE.rglob("*.md")):
        yield from _DOCUMENTED.findall(page.read_text("utf-8"))
