//! Rows as INSERT statements, for servers that take no local file, and to compare with.

use datagen::column::NULL;
use workload::tables::Table;

/// Bytes that a row adds to its values in a statement: parentheses, commas and quotes of any column.
const TUPLE_EXTRA: usize = 3;
const COLUMN_EXTRA: usize = 3;

/// The form of a value in a statement.
#[derive(Clone, Copy)]
enum Form {
    Number,
    Text,
    /// As digits: a statement is text.
    Bytes,
}

/// INSERT statements of a table under way.
pub struct Statement {
    text: String,
    /// Length of the text up to the first row.
    head: usize,
    /// The form of each column's values.
    forms: Vec<Form>,
}

impl Statement {
    pub fn new(table: &Table) -> Self {
        let text = super::sql::insert(table);
        let columns = table.rows.numbers().into_iter().zip(table.rows.bytes());
        let forms = columns.map(|column| match column {
            (true, _) => Form::Number,
            (_, true) => Form::Bytes,
            _ => Form::Text,
        });
        Self { head: text.len(), text, forms: forms.collect() }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn is_empty(&self) -> bool {
        self.text.len() == self.head
    }

    /// Return true where `row` can be added and the text stays within `limit` bytes.
    pub fn has_room(&self, row: &[u8], limit: usize) -> bool {
        let digits = if self.forms.iter().any(|form| matches!(form, Form::Bytes)) { 2 } else { 1 };
        let longest = digits * row.len() + TUPLE_EXTRA + COLUMN_EXTRA * self.forms.len();
        self.text.len() + longest <= limit
    }

    /// Add a row, columns separated by tabs, without its newline.
    pub fn push(&mut self, row: &[u8]) {
        self.text.push_str(if self.is_empty() { "(" } else { ",(" });
        let values = row.split(|&byte| byte == b'\t').zip(&self.forms);
        for (position, (value, form)) in values.enumerate() {
            if position > 0 {
                self.text.push(',');
            }
            if value == NULL && !matches!(form, Form::Bytes) {
                self.text.push_str("NULL");
                continue;
            }
            let (before, after) = match form {
                Form::Number => ("", ""),
                Form::Text => ("'", "'"),
                Form::Bytes => ("x'", "'"),
            };
            self.text.push_str(before);
            match form {
                Form::Bytes => value.iter().for_each(|&byte| push_digits(byte, &mut self.text)),
                // No text holds a quote or a backslash.
                _ => self.text.push_str(str::from_utf8(value).expect("texts are ASCII")),
            }
            self.text.push_str(after);
        }
        self.text.push(')');
    }

    pub fn clear(&mut self) {
        self.text.truncate(self.head);
    }
}

fn push_digits(byte: u8, text: &mut String) {
    for digit in [byte >> 4, byte & 15] {
        text.push(char::from(b"0123456789ABCDEF"[usize::from(digit)]));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use datagen::TableRows;
    use datagen::column::{Integer, Value};
    use workload::tables::ColumnName;

    fn statement() -> Statement {
        let column =
            |name: &str| ColumnName { name: name.to_owned(), binary: false, nullable: false };
        let id = Value::Integer(Integer::Row { first: 0, step: 1 });
        let word = Value::Constant { text: b"x".to_vec(), is_number: false };
        Statement::new(&Table {
            name: "t".to_owned(),
            create: String::new(),
            after_load: Vec::new(),
            warm: Vec::new(),
            columns: vec![column("id"), column("c")],
            rows: Arc::new(TableRows::new(9, vec![id, word])),
        })
    }

    #[test]
    fn numbers_are_bare_and_texts_are_quoted() {
        let mut statement = statement();
        statement.push(b"-1\tab");
        statement.push(b"2\t7");
        statement.push(b"\\N\t\\N");
        let rows = "(-1,'ab'),(2,'7'),(NULL,NULL)";
        assert_eq!(statement.text(), format!("INSERT INTO `t` (`id`, `c`) VALUES {rows}"));
        statement.clear();
        assert!(statement.is_empty());
        statement.push(b"3\t");
        assert_eq!(statement.text(), "INSERT INTO `t` (`id`, `c`) VALUES (3,'')");
    }

    #[test]
    fn a_statement_with_room_stays_within_its_limit() {
        let row = b"123456\tabc";
        for limit in 60..200 {
            let mut statement = statement();
            while statement.has_room(row, limit) {
                statement.push(row);
            }
            assert!(statement.text().len() <= limit || statement.is_empty());
        }
    }
}
