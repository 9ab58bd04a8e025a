"""Test the time that importing the package costs every command."""

import subprocess
import sys


def test_parts_of_scipy_are_loaded_where_they_are_first_used() -> None:
    said = subprocess.run(
        [
            sys.executable,
            "-c",
            (
                "import sys, millrace.cli.run\n"
                "print([part for part in ('stats', 'special', 'optimize', 'fft') "
                "if f'scipy.{part}' in sys.modules])"
            ),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.strip() == "[]"
