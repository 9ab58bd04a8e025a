"""`millrace judge` as a user calls it, in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from millrace.cli.main import main

Call = Callable[..., tuple[str, str]]


def caller(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Call:
    """A function that calls a command of `judge` and gives its stdout and stderr, with no more
    spaces than there are words."""

    def call(*arguments: str, status: int = 0) -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", ["millrace", "judge", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capfd.readouterr()
        assert ended.value.code == status, err
        assert "Traceback" not in err
        return out, " ".join(err.split())

    return call
