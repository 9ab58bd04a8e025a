"""Build trees that resemble a server's; their real program only prints its version."""

import subprocess
import tarfile
from pathlib import Path

from millrace.model.servers import InstalledServer, Provenance
from millrace.servers import manifest
from millrace.servers.manifest import Layout, Manifest

_SOURCE = """
#include <stdio.h>
int main(int argc, char **argv) {
    printf("%%s  Ver %s for Linux\\n", argv[argc - argc]);
    return 0;
}
"""


def program(path: Path, version: str, *link: str) -> Path:
    """Compile a program that answers with ``version``; ``link`` goes to the linker."""
    return compiled(path, _SOURCE % version, "-x", "none", "-Wl,--no-as-needed", *link)


def compiled(path: Path, source: str, *options: str) -> Path:
    """Compile a C program or library."""
    path.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["cc", "-x", "c", "-", "-o", path, *options], input=source, text=True, check=True
    )
    return path


def library(path: Path) -> Path:
    """Compile an empty shared library whose name is that of its file."""
    return compiled(path, "int nothing;", "-shared", f"-Wl,-soname,{path.name}")


def tree(directory: Path, version: str = "5.7.99", *link: str) -> Path:
    """Build a server in ``directory``: bin/mysqld, share with messages and bootstrap SQL."""
    program(directory / "bin/mysqld", version, *link)
    (directory / "share/english").mkdir(parents=True)
    (directory / "share/english/errmsg.sys").write_bytes(b"messages")
    (directory / "share/mysql_system_tables.sql").write_text("-- tables\n")
    return directory


def installed(tree: Path) -> InstalledServer:
    """Return the server whose ``tree`` is the directory of that name."""
    layout = Layout("tree", "tree/bin/mysqld", "tree/share")
    made = Manifest("small", "mysql", "5.7.99", layout, Provenance("test", ()))
    return manifest.server(made, tree.parent)


def tarball(directory: Path, into: Path) -> Path:
    """Build a vendor's tarball: one directory, including files that no server needs."""
    (directory / "mysql-test").mkdir(exist_ok=True)
    (directory / "mysql-test/big.test").write_text("not needed")
    with tarfile.open(into, "w:gz") as archive:
        archive.add(directory, arcname="vendor-1.0")
    return into
