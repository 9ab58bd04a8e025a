"""Read TOML files that a user wrote."""

import re
import tomllib
from pathlib import Path
from typing import Any

from millrace.errors import Diagnostic, UserError, ValidationError
from millrace.user_files import read_user_file

MOST_BYTES = 4 << 20


def read_text(path: Path, noun: str, *, example: str) -> str:
    """Return the text of a file; raise UserError where it is missing, unreadable or not UTF-8.

    ``noun`` names the kind of file in errors; ``example`` is the hint where there is none.
    """
    try:
        return read_user_file(path, MOST_BYTES).decode("utf-8-sig")
    except FileNotFoundError:
        raise UserError(f"no {noun} {path}", hint=example) from None
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path} is not UTF-8 text (byte {error.start})", hint="save it as UTF-8"
        ) from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None


def parse_toml(path: Path, text: str, *, reference: str) -> dict[str, Any]:
    """Return the content of a TOML text; raise ValidationError, with its place, or UserError.

    ``reference`` is the hint of these errors.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"\(at (?:line (\d+), column (\d+)|end of document)\)", str(error))
        message = str(error).split(" (at ")[0]
        line = int(place[1]) if place and place[1] else text.count("\n") + 1
        column = f"column {place[2]}" if place and place[2] else "end of the file"
        diagnostic = Diagnostic(column, f"not TOML: {message}", line=line)
        raise ValidationError(str(path), [diagnostic], hint=reference) from None
    except (ValueError, RecursionError):  # the nesting at which Python's own parser fails
        raise UserError(
            f"{path} has a number of thousands of digits, or is nested too deeply", hint=reference
        ) from None
