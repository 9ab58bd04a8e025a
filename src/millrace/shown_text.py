"""Escape untrusted text for display and for cells of CSV files.

A server's version, an error message, a name in a CSV file or an imported run may contain escape
sequences that a terminal obeys (OSC 52 sets the clipboard), or bidirectional and zero-width
characters that disguise a line. ``shown`` replaces these by visible escapes. ``cli/console.py`` and
``output_files.py`` apply it to all text that millrace prints or writes. A cell of a CSV file that a
spreadsheet would evaluate as a formula gets an apostrophe in front.
"""

import re

# Unicode's categories Cc, Cf, Cs, Zl and Zp but for tab, newline and the end of a line of RFC 4180,
# the property Default_Ignorable_Code_Point, and three more characters without a visible glyph.
# A test compares the ranges with Unicode's, and with those of the load generator (shown.rs).
_HIDDEN = re.compile(
    r"\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f"
    r"\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    r"\u2060-\u206f\u2800\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000110bd"
    r"\U000110cd\U00013430-\U0001343f\U00016fe4\U0001bca0-\U0001bca3\U0001d159"
    r"\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)

_LINE = str.maketrans({"\n": r"\n", "\r": r"\r", "\t": r"\t"})

# Spreadsheets skip blanks before a formula, and some take full-width signs for the ordinary ones.
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_CONTROLS = ("\t", "\r", "\n")
_MARK = "'"


def shown(text: str) -> str:
    r"""Return ``text`` with all invisible characters replaced by escapes such as ``\x1b``."""
    return _HIDDEN.sub(_escape, text)


def shown_line(text: str) -> str:
    """Return ``text`` on one line: like ``shown``, with line ends and tabs escaped too."""
    return shown(text).translate(_LINE)


def shown_json(document: str) -> str:
    """Return an equivalent JSON document with all invisible characters escaped as in JSON."""
    return _HIDDEN.sub(_json_escape, document)


def defused_cell(cell: object) -> object:
    """Return a cell, with an apostrophe in front if a spreadsheet would evaluate it."""
    return f"{_MARK}{cell}" if isinstance(cell, str) and _is_formula(cell) else cell


def plain_cell(cell: str) -> str:
    """Return the text from which ``defused_cell`` made ``cell``."""
    return cell[len(_MARK) :] if cell.startswith(_MARK) and _is_formula(cell) else cell


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x100:
        return r"\r" if found[0] == "\r" else f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _is_formula(text: str) -> bool:
    # Ignore leading apostrophes, so that plain_cell reverses defused_cell for every text.
    rest = text.lstrip(_MARK)
    return rest.startswith(_CONTROLS) or rest.lstrip().startswith(_FORMULA)
