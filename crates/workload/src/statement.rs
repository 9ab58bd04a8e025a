//! Statements: texts cut at their parameters, and the requests composed of the pieces.

use super::generated::GeneratedValues;
use super::generation::{GenerationStep, GeneratorState};
use super::generator::{AnswerForm, AnswerPart, CompiledGenerator, Form, is_plain};
use super::tails::Remembered;
use datagen::put_integer;
use protocol::mysql::binary::{Execute, Kind};
use protocol::script::Observe;

/// A value to capture from each answer to a statement.
#[derive(Clone, Debug)]
pub struct Capture {
    /// Index into [`GeneratorState::answers`].
    pub answer: usize,
    pub part: AnswerPart,
    pub form: AnswerForm,
    /// True if the value is captured from every row.
    pub of_all_rows: bool,
    /// The value if the answer has no row, or NULL.
    pub default: i64,
}

/// The prefix of a text written as hexadecimal digits.
const HEXADECIMAL: &[u8] = b"_utf8mb4 x'";

/// The prefix of bytes written as hexadecimal digits.
const BYTES: &[u8] = b"x'";

#[derive(Debug, Default)]
pub struct Statement {
    pub name: String,
    pub head: TextPieces,
    pub terms: Option<Terms>,
    /// The texts to prepare: one for each table, or one for all. Empty if the statement is sent as
    /// text.
    pub to_prepare: Vec<String>,
    /// The types of the parameters of a prepared statement.
    pub kinds: Vec<Kind>,
    /// The index of the statement's first id among the ids of a client.
    pub first_id: usize,
    /// True if the text depends on the table.
    pub per_table: bool,
    /// Values that later steps take from the answers to this statement.
    pub takes: Vec<Capture>,
    /// The values to remember from long answers.
    pub remembers: Option<Remembered>,
    pub observe: Observe,
}

/// The repeated part of a statement, and the text after it.
#[derive(Debug)]
pub struct Terms {
    pub times: u32,
    pub join: Box<[u8]>,
    pub generation: Vec<GenerationStep>,
    pub pieces: TextPieces,
    pub tail: TextPieces,
}

impl Terms {
    /// Append the terms, joined by `join`; `put` appends one term.
    #[inline]
    fn write(&self, out: &mut Vec<u8>, mut put: impl FnMut(&mut Vec<u8>)) {
        for term in 0..self.times {
            if term > 0 {
                out.extend_from_slice(&self.join);
            }
            put(out);
        }
    }
}

/// A text cut at its question marks: fixed texts, with parameters between them.
#[derive(Debug, Default)]
pub struct TextPieces {
    /// For each table, one more text than there are parameters.
    pub fixed: Vec<Box<[u8]>>,
    pub parameters: Vec<Parameter>,
}

/// The generator and form of the values of a question mark.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    pub slot: u16,
    pub form: Form,
    /// The maximum number of values.
    pub count: u32,
    /// True if the number of values is always the maximum.
    pub is_fixed: bool,
    longest: usize,
}

impl Parameter {
    pub fn of(generator: &CompiledGenerator, slot: u16) -> Self {
        let longest = match generator.form() {
            Form::Integer | Form::Decimal => generator.longest(),
            Form::Plain => generator.longest() + 2,
            Form::Text => 2 * generator.longest() + HEXADECIMAL.len() + 1,
            Form::Bytes => 2 * generator.longest() + BYTES.len() + 1,
        };
        let is_fixed = generator.more.is_none();
        Self { slot, form: generator.form(), count: generator.most(), is_fixed, longest }
    }

    pub fn kind(self) -> Kind {
        match self.form {
            Form::Integer => Kind::Integer,
            Form::Decimal => Kind::Decimal,
            Form::Plain | Form::Text => Kind::Text,
            Form::Bytes => Kind::Bytes,
        }
    }

    #[inline]
    fn write_literals(self, made: &GeneratedValues, out: &mut Vec<u8>) {
        if self.form == Form::Integer {
            for (position, &value) in made.integers(self.slot).iter().enumerate() {
                separate(position, out);
                // The whole buffer is copied: a length known at compile time makes that cheap.
                let mut digits = [0; 32];
                let end = out.len() + put_integer(&mut digits, value);
                out.extend_from_slice(&digits);
                out.truncate(end);
            }
            return;
        }
        for (position, text) in made.texts(self.slot).enumerate() {
            separate(position, out);
            match self.form {
                Form::Integer | Form::Decimal => out.extend_from_slice(text),
                Form::Plain => write_quoted(text, out),
                Form::Text if text.iter().copied().all(is_plain) => write_quoted(text, out),
                Form::Text => write_hexadecimal(HEXADECIMAL, text, out),
                Form::Bytes => write_hexadecimal(BYTES, text, out),
            }
        }
    }

    /// Append the values, as those of a prepared statement.
    #[inline]
    fn write_values(self, made: &GeneratedValues, execute: &mut Execute<'_>) {
        if self.form == Form::Integer {
            for &value in made.integers(self.slot) {
                execute.integer(value);
            }
        } else {
            for text in made.texts(self.slot) {
                execute.text(text);
            }
        }
    }
}

#[inline]
fn separate(position: usize, out: &mut Vec<u8>) {
    if position > 0 {
        out.extend_from_slice(b", ");
    }
}

#[inline]
fn write_quoted(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'\'');
    out.extend_from_slice(text);
    out.push(b'\'');
}

/// Write a text of any characters as hexadecimal digits. The meaning of quotes and backslashes
/// depends on the `sql_mode`; this form does not. The introducer makes it text of the connection's
/// character set, not bytes.
fn write_hexadecimal(before: &[u8], text: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.extend_from_slice(before);
    let digits = |byte: &u8| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
    out.extend(text.iter().flat_map(digits));
    out.push(b'\'');
}

impl TextPieces {
    /// Append the text for a table; `put` appends the value of a parameter.
    #[inline]
    fn write(&self, table: usize, out: &mut Vec<u8>, mut put: impl FnMut(Parameter, &mut Vec<u8>)) {
        let fixed = &self.fixed[table * (self.parameters.len() + 1)..];
        out.extend_from_slice(&fixed[0]);
        for (parameter, after) in self.parameters.iter().zip(&fixed[1..]) {
            put(*parameter, out);
            out.extend_from_slice(after);
        }
    }

    #[inline]
    fn write_text(&self, table: usize, made: &GeneratedValues, out: &mut Vec<u8>) {
        self.write(table, out, |parameter, out| parameter.write_literals(made, out));
    }

    #[inline]
    fn write_values(&self, made: &GeneratedValues, execute: &mut Execute<'_>) {
        for parameter in &self.parameters {
            parameter.write_values(made, execute);
        }
    }

    /// Return a text without parameters, the same for all tables.
    pub fn plain(text: &str) -> Self {
        Self { fixed: vec![text.as_bytes().into()], parameters: Vec::new() }
    }

    fn texts(&self) -> usize {
        self.fixed.len() / (self.parameters.len() + 1)
    }

    fn longest(&self) -> usize {
        let fixed = self.fixed.chunks(self.parameters.len() + 1);
        let fixed = fixed.map(|pieces| pieces.iter().map(|piece| piece.len()).sum()).max();
        let separator = 2;
        let longest = |value: &Parameter| value.count as usize * (value.longest + separator);
        let values = self.parameters.iter().map(longest);
        fixed.unwrap_or(0) + values.sum::<usize>()
    }

    fn kinds(&self) -> impl Iterator<Item = Kind> + Clone {
        let kinds = |value: &Parameter| std::iter::repeat_n(value.kind(), value.count as usize);
        self.parameters.iter().flat_map(kinds)
    }

    fn write_marks(&self, table: usize, out: &mut Vec<u8>) {
        self.write(table, out, |parameter, out| {
            for position in 0..parameter.count as usize {
                separate(position, out);
                out.push(b'?');
            }
        });
    }
}

impl Statement {
    /// Return a statement that is sent as text.
    pub fn text(name: &str, head: TextPieces) -> Self {
        let per_table = head.texts() > 1;
        Self { name: name.to_owned(), per_table, head, ..Self::default() }
    }

    /// Make it a prepared statement.
    pub fn prepare(&mut self) {
        self.to_prepare = (0..self.head.texts()).map(|table| self.text_to_prepare(table)).collect();
        self.kinds = self.head.kinds().collect();
        if let Some(terms) = &self.terms {
            let all = (0..terms.times).flat_map(|_| terms.pieces.kinds());
            self.kinds.extend(all.chain(terms.tail.kinds()));
        }
    }

    #[inline]
    pub fn is_prepared(&self) -> bool {
        !self.to_prepare.is_empty()
    }

    /// Return whether the number of parameters is random.
    pub fn varies(&self) -> bool {
        let of_terms = self.terms.iter().flat_map(|terms| [&terms.pieces, &terms.tail]);
        let mut pieces = of_terms.chain([&self.head]);
        pieces.any(|pieces| pieces.parameters.iter().any(|parameter| !parameter.is_fixed))
    }

    #[inline]
    pub fn parameter_count(&self) -> u16 {
        u16::try_from(self.kinds.len()).expect("their number is checked")
    }

    fn text_to_prepare(&self, table: usize) -> String {
        let mut out = Vec::new();
        self.head.write_marks(table, &mut out);
        if let Some(terms) = &self.terms {
            terms.write(&mut out, |out| terms.pieces.write_marks(table, out));
            terms.tail.write_marks(table, &mut out);
        }
        String::from_utf8(out).expect("it is made of texts cut at question marks")
    }

    pub fn longest(&self) -> usize {
        let terms = self.terms.as_ref().map_or(0, |terms| {
            let one = terms.pieces.longest() + terms.join.len();
            terms.times as usize * one + terms.tail.longest()
        });
        self.head.longest() + terms
    }

    /// Append the statement's text for a table.
    #[inline]
    pub fn write_text(
        &self,
        table: u32,
        generators: &[CompiledGenerator],
        state: &mut GeneratorState,
        made: &mut GeneratedValues,
        out: &mut Vec<u8>,
    ) {
        let table = if self.per_table { table as usize } else { 0 };
        self.head.write_text(table, made, out);
        if let Some(terms) = &self.terms {
            terms.write(out, |out| {
                let mark = made.mark();
                state.make(&terms.generation, generators, made);
                terms.pieces.write_text(table, made, out);
                made.back_to(mark);
            });
            terms.tail.write_text(table, made, out);
        }
    }

    /// Append the values of an execution.
    #[inline]
    pub fn write_values(
        &self,
        generators: &[CompiledGenerator],
        state: &mut GeneratorState,
        made: &mut GeneratedValues,
        execute: &mut Execute<'_>,
    ) {
        self.head.write_values(made, execute);
        if let Some(terms) = &self.terms {
            for _ in 0..terms.times {
                let mark = made.mark();
                state.make(&terms.generation, generators, made);
                terms.pieces.write_values(made, execute);
                made.back_to(mark);
            }
            terms.tail.write_values(made, execute);
        }
    }
}
