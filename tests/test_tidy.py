"""The habits that no linter holds: sizes, names, places, reasons, and links that lead somewhere."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
import tomllib
import unicodedata
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILE_MAX_LINES = 400
FUNCTION_MAX_LINES = 70

# path -> why this one file may be longer
LONG_FILES: dict[str, str] = {}

# Words are put together here, so that this file does not hold what it looks for.
UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b")
SHAPELESS_NAMES = {"util", "utils", "helper", "helpers", "common", "manager", "managers"}
MACHINE_PATH = re.compile(r"(?<![\w.~}-])/(?:work|root|home|Users)/[\w.]")
REGISTRY_HOSTS = [
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("debian", "org"),
        ("crates", "io"),
        ("proxy", "golang", "org"),
        ("anaconda", "org"),
    )
]


def _is_made(part: str) -> bool:
    """Whether a folder of this name is made by a tool and is no part of the project."""
    return part in {".git", ".venv", "__pycache__", "dist", ".hypothesis"} or part.endswith("_cache")


@cache
def tracked() -> list[Path]:
    """Return every file of the project: what git tracks, or, in an unpacked archive, what lies there."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode == 0:
        paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    else:
        paths = [path for path in ROOT.rglob("*") if not any(map(_is_made, path.relative_to(ROOT).parts))]
    return sorted(path for path in paths if path.is_file())


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def text_of(path: Path) -> str | None:
    """Return a file's text, or None for a binary one."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def texts() -> list[tuple[str, str]]:
    return [(name_of(path), text) for path in tracked() if (text := text_of(path)) is not None]


def modules() -> list[tuple[str, str]]:
    return [(name, text) for name, text in texts() if name.endswith(".py")]


def documents() -> list[tuple[str, str]]:
    return [(name, text) for name, text in texts() if name.endswith(".md")]


def lines_that_match(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{name}:{number}: {line.strip()[:100]}"
        for name, text in texts()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


def test_there_is_something_to_look_at():
    names = {name for name, _ in modules()}
    assert "journal/limits.py" in names
    assert "tests/test_tidy.py" in names
    assert len(documents()) > 10


def test_a_file_holds_one_idea():
    long = {name: lines for name, text in modules() if (lines := text.count("\n")) > FILE_MAX_LINES}
    assert {name: lines for name, lines in long.items() if name not in LONG_FILES} == {}
    assert set(LONG_FILES) <= set(long), "an exception that is no longer needed"
    assert all(len(reason) > 20 for reason in LONG_FILES.values())


def test_a_function_holds_one_level_of_thought():
    long = [
        f"{name}:{node.lineno}: {node.name} has {node.end_lineno - node.lineno + 1} lines"
        for name, text in modules()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > FUNCTION_MAX_LINES
    ]
    assert long == []


def test_nothing_is_put_off_in_the_code():
    assert lines_that_match(UNFINISHED) == []


def test_every_module_says_what_it_is():
    assert [name for name, text in modules() if not ast.get_docstring(ast.parse(text))] == []


def _distribution(requirement: str) -> str:
    """Return the name that a requirement begins with."""
    return re.split(r"[^\w-]", requirement, maxsplit=1)[0]


def _words(name: str) -> set[str]:
    return {word.lower() for part in name.split("_") for word in re.findall(r"[A-Z]*[a-z0-9]+|[A-Z]+", part)}


def test_names_say_what_a_thing_is():
    shapeless = [name for name, _ in texts() for part in Path(name).parts if _words(Path(part).stem) & SHAPELESS_NAMES]
    shapeless += [
        f"{name}:{node.lineno}: {node.name}"
        for name, text in modules()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and _words(node.name) & SHAPELESS_NAMES
    ]
    assert shapeless == []


def _odd_character(token: tokenize.TokenInfo) -> bool:
    """Whether code has a character outside ASCII. A comment may quote a word of another script, and cite a section."""
    if token.string.isascii() or token.type == tokenize.STRING or "FSTRING" in tokenize.tok_name[token.type]:
        return False
    if token.type != tokenize.COMMENT:
        return True
    return any(
        not char.isascii() and char != "\u00a7" and unicodedata.category(char)[0] not in "LM" for char in token.string
    )


def test_code_is_ascii_outside_its_strings():
    odd = [
        f"{name}:{token.start[0]}: {token.string[:80]}"
        for name, text in modules()
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if _odd_character(token)
    ]
    assert odd == []


def test_no_emoji_decorates_the_documents():
    found = [
        f"{name}: {char!a}"
        for name, text in documents()
        for char in text
        if 0x1F000 <= ord(char) or 0x2600 <= ord(char) < 0x27C0
    ]
    assert found == []


def test_no_file_names_a_place_on_somebodys_machine():
    assert lines_that_match(MACHINE_PATH) == []


def test_no_file_names_a_registry():
    pattern = re.compile("|".join(re.escape(host) for host in REGISTRY_HOSTS), re.IGNORECASE)
    assert lines_that_match(pattern) == []


def test_every_file_ends_in_one_line_end():
    ragged = [
        name
        for name, text in texts()
        if text and (not text.endswith("\n") or text.endswith("\n\n") or "\r" in text or re.search(r"[ \t]\n", text))
    ]
    assert ragged == []


def _without_code(text: str) -> str:
    text = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", text)


def _anchors(text: str) -> set[str]:
    """Return the anchors of a document's headings, as a reader of the repository sees them."""
    found: dict[str, int] = {}
    outside = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", outside, flags=re.MULTILINE):
        plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        found[anchor] = found.get(anchor, -1) + 1
    return {name if not number else f"{name}-{number}" for name, last in found.items() for number in range(last + 1)}


def _broken_links(name: str, text: str) -> list[str]:
    broken = []
    for target in re.findall(r"\]\(\s*<?([^)\s>]+)", _without_code(text)):
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        place, _, anchor = target.partition("#")
        path = (ROOT / name).parent / place if place else ROOT / name
        if not path.exists() or (
            anchor and path.suffix == ".md" and anchor not in _anchors(path.read_text(encoding="utf-8"))
        ):
            broken.append(f"{name}: {target}")
    return broken


def test_every_link_in_the_documents_leads_somewhere():
    assert [broken for name, text in documents() for broken in _broken_links(name, text)] == []


def test_broken_links_are_found():
    assert _broken_links("docs/x.md", "[a](nowhere.md) [b](https://example.com) `[c](gone.md)` [d](../LICENSE)") == [
        "docs/x.md: nowhere.md"
    ]
    assert _broken_links("CONTRIBUTING.md", "[a](CONTRIBUTING.md#no-such-heading)") == [
        "CONTRIBUTING.md: CONTRIBUTING.md#no-such-heading"
    ]


def test_every_rule_left_out_has_its_reason():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    lint = tomllib.loads(text)["tool"]["ruff"]["lint"]
    left_out = [*lint["ignore"], *(code for codes in lint["per-file-ignores"].values() for code in codes)]
    reasons = re.findall(r'^ +"([A-Z]+[0-9]*)", +# (.{5,})$', text, flags=re.MULTILINE)
    assert sorted(code for code, _ in reasons) == sorted(left_out)


def test_every_exception_in_the_code_has_its_reason():
    bare = re.compile(r"#\s*(?:noqa(?!: [A-Z]+[0-9]+(?:, [A-Z]+[0-9]+)* - .{8})|type: ignore(?!\[[\w, -]+\]))")
    comments = [
        f"{name}:{token.start[0]}: {token.string}"
        for name, text in modules()
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT and bare.search(token.string)
    ]
    assert comments == []


def test_the_pins_serve_what_the_project_asks_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pinned = {
        name: set(re.findall(r"^([a-z0-9-]+)==", (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE))
        for name in ("requirements.txt", "requirements-dev.txt")
    }
    asked = {_distribution(line).lower() for line in project["dependencies"]}
    asked_dev = {_distribution(line).lower() for line in project["optional-dependencies"]["dev"]}
    assert asked | {"hatchling", "editables"} <= pinned["requirements.txt"]
    assert asked_dev | pinned["requirements.txt"] <= pinned["requirements-dev.txt"]


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt"])
def test_every_pin_has_its_hashes_and_names_no_place(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    for block in re.split(r"\n(?=\S)", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)):
        assert re.match(
            r"[a-z0-9-]+(\[[a-z,]+\])?==[\w.]+( ; [\w ='\"]+)? \\\n( +--hash=sha256:[0-9a-f]{64}( \\)?\n)+",
            block + "\n",
        )
    assert not re.search(r"https?:|file:|^-", text, flags=re.MULTILINE)


def test_every_dependency_has_its_reason():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    record = (ROOT / "docs" / "decisions" / "0009-dependencies.md").read_text(encoding="utf-8")
    told = set(re.findall(r"^\| ([\w-]+) \|", record, flags=re.MULTILINE))
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    asked = {_distribution(line) for line in (*project["dependencies"], *extras)}
    assert asked - told == set()
