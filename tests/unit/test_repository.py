"""Check rules of this repository that a linter does not know."""

import re
import subprocess
from pathlib import Path

import pytest

from tests import selection, slow

ROOT = Path(__file__).parents[2]
MODULE_LINES = 600


def tracked(*patterns: str) -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listing.stdout.split() if (ROOT / name).is_file()]


def test_modules_are_short_enough_to_have_one_purpose() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in tracked("*.py", "*.rs")
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > MODULE_LINES
    }
    assert not long


def test_no_registry_is_named() -> None:
    # Written in parts, so that this file does not contain them either.
    hosts = re.compile(
        "|".join(
            re.escape(".".join(parts))
            for parts in (
                ("repo", "maven", "apache", "org"), ("repo1", "maven", "org"),
                ("registry", "npmjs", "org"), ("deb", "debian", "org"),
                ("security", "debian", "org"), ("archive", "debian", "org"),
                ("snapshot", "debian", "org"), ("ftp", "debian", "org"),
                ("pypi", "org"), ("files", "pythonhosted", "org"), ("crates", "io"),
            )
        )
    )  # fmt: skip
    named = {
        str(path.relative_to(ROOT)): match.group()
        for path in tracked()
        if (match := hosts.search(path.read_text(encoding="utf-8", errors="ignore")))
    }
    assert not named


def test_every_cli_command_is_documented() -> None:
    from millrace.cli.main import COMMANDS

    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md"))
    text += (ROOT / "README.md").read_text(encoding="utf-8")
    undocumented = [name for name in COMMANDS if f"millrace {name}" not in text]
    assert not undocumented


def test_local_links_in_documents_lead_somewhere() -> None:
    link = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
    broken = [
        f"{path.relative_to(ROOT)}: {target}"
        for path in tracked("*.md")
        for target in link.findall(path.read_text(encoding="utf-8"))
        if "://" not in target and not (path.parent / target).exists()
    ]
    assert not broken


def test_paths_in_the_architecture_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    named = re.findall(r"`([a-z_][a-z\d_.-]*/[a-z\d_./-]*|[a-z_]+\.(?:py|toml))`", prose)
    package = ROOT / "src" / "millrace"
    missing = [
        name
        for name in named
        if not any((base / name).exists() for base in (ROOT, package))
        and not (ROOT / f"{name}.py").exists()  # a benchmark
        and not any(package.rglob(name.rstrip("/")))
        and not any((ROOT / "crates").rglob(name.rstrip("/")))
    ]
    assert len(named) > 50
    assert not missing


def test_paths_in_decisions_and_in_the_security_document_exist() -> None:
    pages = [ROOT / "SECURITY.md", *(ROOT / "docs/decisions").glob("*.md")]
    missing = [
        f"{page.name}: {name}"
        for page in pages
        for name in re.findall(r"`([a-z_]+/[\w/.-]+\.(?:py|toml|rs))`", page.read_text("utf-8"))
        if not any((base / name).exists() for base in (ROOT, ROOT / "src/millrace", ROOT / "tests"))
    ]
    assert not missing


def test_slow_tests_that_are_listed_exist() -> None:
    listed = {name.partition("[")[0] for name in slow.listed()}
    assert listed <= {"::".join(names) for names in selection.names_of_tests()}


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt"])
def test_every_package_is_pinned_with_hashes(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ")
    pinned = [
        line.split() for line in text.splitlines() if line and not line.startswith(("#", "-"))
    ]
    assert len(pinned) > 15
    for package, *hashes in pinned:
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9a-z.]*", package), package
        assert hashes, package
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", each) for each in hashes), package


def test_pip_installs_nothing_without_a_hash() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    installs = [line for line in makefile.splitlines() if line.startswith("\t$(PIP)")]
    assert len(installs) == 3
    for line in installs:
        assert "--require-hashes --requirement" in line or "--no-deps" in line
