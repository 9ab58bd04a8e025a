"""Call `millrace analyze` as a user does, in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from millrace.cli.main import main

Call = Callable[..., tuple[str, str]]


def caller(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Call:
    """Return a function that calls a command of `analyze`.

    It returns stdout and stderr, with single spaces between words.
    """

    def call(*arguments: str, status: int = 0) -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", ["millrace", "analyze", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capfd.readouterr()
        assert ended.value.code == status, err
        assert "Traceback" not in err
        return out, " ".join(err.split())

    return call


def check_refused(call: Call, command: str, file: Path, text: str, said: str) -> None:
    """Check that ``command`` refuses a file of this ``text``, says so, and says what to do."""
    file.write_text(text, encoding="utf-8")
    out, err = call(command, str(file), status=2)
    assert out == ""
    # Long lines are broken, anywhere in the path of the file.
    assert said.replace(" ", "") in err.replace(" ", "")
    assert "what to do:" in err
