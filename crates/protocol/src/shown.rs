//! Makes text from other sources safe to print: control and invisible characters become visible
//! escapes.
//!
//! A server's version or error message may contain escape sequences that a terminal executes (OSC
//! 52 sets the clipboard), or characters that reorder or hide the text around them.
//! `millrace/shown_text.py` has the same rules; a test (`tests/unit/test_shown_text.py`) compares
//! the ranges.

use std::borrow::Cow;
use std::fmt::Write;

/// The maximum length of a quoted server text; servers send at most 512 bytes.
const EXCERPT_BYTES: usize = 1024;

/// Ranges of invisible characters above ASCII: the first and the last character.
#[rustfmt::skip]
const HIDDEN: [(char, char); 29] = [
    ('\u{80}', '\u{9f}'), ('\u{ad}', '\u{ad}'), ('\u{34f}', '\u{34f}'), ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'), ('\u{6dd}', '\u{6dd}'), ('\u{70f}', '\u{70f}'), ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'), ('\u{115f}', '\u{1160}'), ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'), ('\u{200b}', '\u{200f}'), ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'), ('\u{2800}', '\u{2800}'), ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'), ('\u{feff}', '\u{feff}'), ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'), ('\u{110bd}', '\u{110bd}'), ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'), ('\u{16fe4}', '\u{16fe4}'), ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d159}', '\u{1d159}'), ('\u{1d173}', '\u{1d17a}'), ('\u{e0000}', '\u{e0fff}'),
];

/// Return `text` with visible escapes for invisible characters, except newlines and tabs.
pub fn shown(text: &str) -> Cow<'_, str> {
    escaped(text, |sign| !matches!(sign, '\n' | '\t') && is_hidden(sign), put_escape)
}

/// Return `text` for a single line: as `shown`, but newlines and tabs are escaped too.
pub fn shown_line(text: &str) -> Cow<'_, str> {
    escaped(text, is_hidden, put_escape)
}

/// Return a JSON document with invisible characters as JSON escapes, which do not change its
/// content.
pub fn shown_json(document: &str) -> Cow<'_, str> {
    // JSON already escapes the control characters of ASCII in strings; newlines only separate
    // values.
    escaped(
        document,
        |sign| sign > '~' && is_hidden(sign),
        |out, sign| {
            for unit in sign.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        },
    )
}

/// Return the beginning of a server's text, which can be long.
pub fn excerpt(text: &str) -> String {
    beginning(text, EXCERPT_BYTES)
}

/// Return the beginning of a text, at most this number of bytes, with dots if there is more.
pub fn beginning(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let mut end = bytes;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}...", &text[..end])
}

fn is_hidden(sign: char) -> bool {
    sign.is_ascii_control() || HIDDEN.iter().any(|(first, last)| (*first..=*last).contains(&sign))
}

fn escaped(
    text: &str,
    is_hidden: impl Fn(char) -> bool,
    put: impl Fn(&mut String, char),
) -> Cow<'_, str> {
    if !text.contains(&is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for sign in text.chars() {
        if is_hidden(sign) {
            put(&mut out, sign);
        } else {
            out.push(sign);
        }
    }
    Cow::Owned(out)
}

/// Writing to a string cannot fail.
fn put_escape(out: &mut String, sign: char) {
    let _ = match (sign, u32::from(sign)) {
        ('\n', _) => write!(out, "\\n"),
        ('\r', _) => write!(out, "\\r"),
        ('\t', _) => write!(out, "\\t"),
        (_, code @ ..0x100) => write!(out, "\\x{code:02x}"),
        (_, code @ ..0x1_0000) => write!(out, "\\u{code:04x}"),
        (_, code) => write!(out, "\\U{code:08x}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_becomes_visible() {
        let hostile = "8.0\x1b]52;c;aGk=\x07\u{9b}2J\u{202e}gpj\u{200b}\r\n\te\u{301} \u{e0041}";
        assert_eq!(
            shown(hostile),
            "8.0\\x1b]52;c;aGk=\\x07\\x9b2J\\u202egpj\\u200b\\r\n\te\u{301} \\U000e0041"
        );
        assert_eq!(shown_line("a\r\n\tb"), "a\\r\\n\\tb");
        assert!(matches!(shown_line("10.11.6-MariaDB é"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_document_holds_the_same_afterwards() {
        let text = "\x1b\x7f\u{9b}\u{202e}\u{e0041}\n\"é";
        let document = serde_json::to_string(text).unwrap();
        let shown = shown_json(&document);
        assert_eq!(shown, r#""\u001b\u007f\u009b\u202e\udb40\udc41\n\"é""#);
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text);
    }

    #[test]
    fn of_long_words_the_beginning_is_kept() {
        assert_eq!(excerpt("denied"), "denied");
        let long = "é".repeat(EXCERPT_BYTES);
        let kept = excerpt(&long);
        assert_eq!(kept.len(), EXCERPT_BYTES + "...".len());
        assert!(kept.ends_with("é..."));
    }
}
