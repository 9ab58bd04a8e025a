//! Interned texts: a text is represented by a number, which is cheap to compare and to copy.

use std::collections::HashMap;
use std::rc::Rc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name(usize);

/// All interned texts.
#[derive(Debug, Default)]
pub struct Names {
    texts: Vec<Rc<str>>,
    numbers: HashMap<Rc<str>, Name>,
}

impl Names {
    pub fn number(&mut self, text: &str) -> Name {
        if let Some(&name) = self.numbers.get(text) {
            return name;
        }
        let name = Name(self.texts.len());
        let text: Rc<str> = text.into();
        self.texts.push(Rc::clone(&text));
        self.numbers.insert(text, name);
        name
    }

    pub fn text(&self, name: Name) -> &str {
        &self.texts[name.0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_have_one_number() {
        let mut names = Names::default();
        let (one, other) = (names.number("a"), names.number("b"));
        assert_eq!((names.number("a"), names.number("b")), (one, other));
        assert_eq!((names.text(one), names.text(other)), ("a", "b"));
    }
}
