"""The code itself is tested: layout, names, sizes, dead files, and what must not be in a public tree."""

import ast
import re
import statistics
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("nursery", "storage", "rpc", "tayho")
TOP_LEVEL = {
    *("README.md", "ARCHITECTURE.md", "LICENSE", "pyproject.toml", "Makefile", "Dockerfile"),
    *(".ci", ".gitignore", ".dockerignore", ".flake8", ".importlinter", ".squawk.toml"),
    *("nursery", "storage", "rpc", "sql", "tayho", "tests", "docs", "deploy", "tools", "requirements"),
}
# Folders of tests that mirror no package: each is about a promise, or about the tree as a whole.
TESTS_BESIDE = {
    *("crash", "simulation", "sweep", "guards", "interop", "planted", "migrations"),
    *("bench", "conformance", "rules", "services", "docs", "image", "deploy"),
}
BANNED_NAMES = {"util", "utils", "helper", "helpers", "manager", "managers", "common", "misc", "stuff"}
LINES_MEDIAN_MAX = 200
LINES_MAX = 500
FUNCTION_LINES_MAX = 60
# Written in two halves, so that this file does not break what it asserts.
UNFINISHED = re.compile("TO" + "DO|FIX" + "ME|XX" + "X|HA" + "CK")
MACHINE = re.compile(
    "|".join(
        [
            *(r"(?<![\w.])/" + folder + r"/\w" for folder in ("work", "root", "home")),
            *(re.escape(host) for host in ("registry." + "npmjs", "pypi." + "org", "python" + "hosted")),
            re.escape("deb." + "debian"),
            '"' + 'resolved":',
        ]
    )
)


@cache
def tracked() -> tuple[str, ...]:
    """Every file that is committed or about to be, but for the planted violations."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return tuple(path for path in sorted(listed) if (ROOT / path).is_file())


def python_files(*folders: str) -> list[str]:
    """The Python files below the folders, planted violations left out."""
    return [path for path in tracked() if path.endswith(".py") and path.startswith(folders) and "/planted/" not in path]


def text_of(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def texts() -> Iterator[tuple[str, str]]:
    """Every tracked text file."""
    for path in tracked():
        raw = (ROOT / path).read_bytes()
        if b"\0" not in raw:
            yield path, raw.decode("utf-8")


def module_name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def test_the_top_level_is_the_house() -> None:
    """Goal: who opens the tree sees what the system is. Method: the top-level names are a fixed list."""
    assert {path.partition("/")[0] for path in tracked()} - TOP_LEVEL == set()


def test_files_are_of_one_purpose() -> None:
    """Goal: small files. Method: the median and the longest of the product, and the longest of the tests."""
    sizes = {path: text_of(path).count("\n") for path in python_files(*PACKAGES)}
    assert statistics.median(sizes.values()) < LINES_MEDIAN_MAX
    sizes |= {path: text_of(path).count("\n") for path in python_files("tests/", "tools/")}
    assert [path for path, lines in sizes.items() if lines > LINES_MAX] == []


def test_functions_fit_a_screen() -> None:
    """Goal: a function is read without scrolling. Method: count its lines, in product and tools."""
    long = [
        f"{path}:{node.lineno} {node.name}"
        for path in python_files(*PACKAGES, "tools/")
        for node in ast.walk(ast.parse(text_of(path)))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= FUNCTION_LINES_MAX
    ]
    assert not long, "\n".join(long)


def test_every_module_says_what_it_is_for() -> None:
    """Goal: no file without a reason to exist. Method: each Python file opens with a docstring."""
    paths = python_files(*PACKAGES, "sql/", "tests/", "tools/")
    silent = [path for path in paths if not ast.get_docstring(ast.parse(text_of(path)))]
    assert not silent, "\n".join(silent)


def test_every_test_says_its_goal() -> None:
    """Goal: a reader knows what a failing test protects. Method: each test function has a docstring."""
    silent = [
        f"{path}:{node.lineno} {node.name}"
        for path in python_files("tests/")
        for node in ast.walk(ast.parse(text_of(path)))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    ]
    assert not silent, "\n".join(silent)


def test_nothing_is_left_unfinished() -> None:
    """Goal: what is missing is an issue, not a note. Method: search every tracked file for the usual marks."""
    found = [path for path, text in texts() if UNFINISHED.search(text) and not path.endswith((".lock", "-lock.json"))]
    assert not found, "\n".join(found)


def test_names_say_what_is_inside() -> None:
    """Goal: no drawer for everything. Method: no word of any file or folder name is on the list of empty names."""
    words = {path: set(re.split(r"[/_.\-]", path)) for path in python_files(*PACKAGES, "sql/", "tests/", "tools/")}
    empty = [path for path, parts in words.items() if parts & BANNED_NAMES]
    assert not empty, "\n".join(empty)


def test_nothing_in_the_tree_knows_this_machine() -> None:
    """Goal: a clone works anywhere. Method: no tracked file names a home, a workplace folder or a registry's host."""
    found = [f"{path}: {match[0]}" for path, text in texts() if (match := MACHINE.search(text))]
    assert not found, "\n".join(found)


def test_suppressions_give_a_reason() -> None:
    """Goal: a silenced rule is a decision. Method: each names its rule, and in the product says why behind a dash.

    A foreign name that is not in our style (N8…) needs no reason: it is another's.
    """
    bare = [
        f"{path}:{number}: {comment}"
        for path in python_files(*PACKAGES, "tests/", "tools/")
        for number, line in enumerate(text_of(path).splitlines(), start=1)
        if (comment := line.partition("#")[2]) and not _is_reasoned(comment, in_tests=path.startswith("tests/"))
    ]
    assert not bare, "\n".join(bare)


def _is_reasoned(comment: str, *, in_tests: bool) -> bool:
    ignored = re.search("(pyright|type): " + r"ignore(\[\w+)?", comment)
    if ignored is not None:
        return bool(ignored[2]) and (in_tests or ignored[1] == "pyright")
    codes = re.search("no" + r"qa(?:: ([A-Z0-9, ]+\d)( - \w)?)?", comment)
    return codes is None or (codes[1] is not None and (in_tests or bool(codes[2]) or codes[1].startswith("N8")))


def test_no_module_is_dead() -> None:
    """Goal: what nothing uses is deleted. Method: each module is imported, named in a string, an entry point, or a face
    that a page of the documents shows."""
    sources = [path for path in tracked() if path.startswith((*PACKAGES, "tools/", "pyproject.toml", "Makefile"))]
    sources += python_files("tests/")
    used: set[str] = set()
    for path in sources:
        if path.endswith(".py"):
            used |= {name for name in _mentioned(path) if name != module_name(path)}
        elif path in ("pyproject.toml", "Makefile"):
            used |= set(re.findall(r"\b(?:tayho|tools|storage|nursery|rpc)(?:\.\w+)+", text_of(path)))
    for path in tracked():
        if path.startswith("docs/"):
            used |= {name.rpartition(".")[0] for name in re.findall(r"`((?:rpc|tayho)(?:\.\w+)+)`", text_of(path))}
    judged = [path for path in python_files(*PACKAGES, "tools/") if not path.endswith(("__init__.py", "__main__.py"))]
    # A contract is made whether or not another context needs it yet.
    dead = [path for path in judged if module_name(path) not in used and not path.startswith("tayho/contracts/")]
    assert not dead, "\n".join(dead)


def _mentioned(path: str) -> Iterator[str]:
    """The modules that a file imports, relative imports resolved, and those that it names in a string."""
    in_tests = path.startswith("tests/")
    for node in ast.walk(ast.parse(text_of(path))):
        match node:
            case ast.Import(names=names) if not in_tests:
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names) if not in_tests or module.startswith("tools"):
                yield module
                yield from (f"{module}.{alias.name}" for alias in names)
            case ast.Constant(value=str(text)) if re.fullmatch(r"\w+(\.\w+)+(:\w+)?", text) and not in_tests:
                yield text.partition(":")[0]
            case _:
                pass


def test_tests_mirror_the_packages() -> None:
    """Goal: the tests of a room are found by its name. Method: each folder of tests is a room, or a known other."""
    rooms = {*PACKAGES, *(path.name for path in (ROOT / "tayho").iterdir() if path.is_dir())}
    folders = {path.split("/")[1] for path in tracked() if path.startswith("tests/") and path.count("/") > 1}
    assert folders - rooms - TESTS_BESIDE == set()


def test_the_readme_opens_with_the_two_commands() -> None:
    """Goal: a newcomer needs nothing else. Method: the first block of the README is the demo and the tests."""
    block = re.search(r"```\w*\n(.*?)```", text_of("README.md"), re.DOTALL)
    assert block is not None
    commands = [line.partition("#")[0].strip() for line in block[1].splitlines() if line.strip()]
    assert commands == ["make demo", "make test"]


@pytest.mark.parametrize("document", [path for path in tracked() if path.endswith(".md")])
def test_links_between_documents_hold(document: str) -> None:
    """Goal: no dead link. Method: each relative link of a Markdown file leads to something that is there."""
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text_of(document)):
        if "://" not in target and not target.startswith("mailto:"):
            assert ((ROOT / document).parent / target).exists(), target


@pytest.mark.parametrize("lock", ["runtime", "dev"])
def test_the_lock_holds_what_pyproject_asks_for(lock: str) -> None:
    """Goal: no install drifts. Method: each requirement is locked at a version that satisfies it, with hashes."""
    project = tomllib.loads(text_of("pyproject.toml"))["project"]
    text = text_of(f"requirements/{lock}.lock")
    versions = dict(re.findall(r"^([\w.-]+)==([\w.]+)", text, re.MULTILINE))
    wanted = [*project["dependencies"]]
    if lock == "dev":
        wanted += [line for name in ("local", "dev") for line in project["optional-dependencies"][name]]
    for requirement in map(Requirement, wanted):
        if requirement.name != project["name"]:
            assert requirement.specifier.contains(versions[canonicalize_name(requirement.name)]), requirement
    assert text.count("==") <= text.count("--hash=sha256:") + text.count(" ; ") * 2


def test_continuous_integration_runs_everything() -> None:
    """Goal: what CI passes is what `make test` passes. Method: the script does nothing else."""
    assert text_of(".ci/run").rstrip().endswith("exec make test")
