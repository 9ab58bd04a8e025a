"""Write cells of CSV files so that a spreadsheet takes no text in them for a formula."""

# Spreadsheets skip blanks before a formula, and some take full-width signs for the ordinary ones.
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_CONTROLS = ("\t", "\r", "\n")
_MARK = "'"


def defused(cell: object) -> object:
    """Return text that a spreadsheet would take for a formula with an apostrophe before it."""
    return f"{_MARK}{cell}" if isinstance(cell, str) and _is_formula(cell) else cell


def plain(cell: str) -> str:
    """Return the text of which ``defused`` made ``cell``."""
    return cell[len(_MARK) :] if cell.startswith(_MARK) and _is_formula(cell) else cell


def _is_formula(text: str) -> bool:
    # Apostrophes of the text count as well, so that each text has one form.
    rest = text.lstrip(_MARK)
    return rest.startswith(_CONTROLS) or rest.lstrip().startswith(_FORMULA)
