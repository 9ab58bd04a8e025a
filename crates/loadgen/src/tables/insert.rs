//! Rows as INSERT statements, for servers that take no local file, and to compare with.

use workload::tables::Table;

/// Bytes that a row adds to its values in a statement: parentheses, commas and quotes of any column.
const TUPLE_EXTRA: usize = 3;
const COLUMN_EXTRA: usize = 3;

/// INSERT statements of a table under way.
pub struct Statement {
    text: String,
    /// Length of the text up to the first row.
    head: usize,
    /// True for each column that needs no quotes.
    numbers: Vec<bool>,
}

impl Statement {
    pub fn new(table: &Table) -> Self {
        let text = super::sql::insert(table);
        Self { head: text.len(), text, numbers: table.rows.numbers() }
    }

    /// Return the statement as it is now.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Return true where it has no row yet.
    pub fn is_empty(&self) -> bool {
        self.text.len() == self.head
    }

    /// Return true where `row` can be added and the text stays within `limit` bytes.
    pub fn has_room(&self, row: &str, limit: usize) -> bool {
        let longest = row.len() + TUPLE_EXTRA + COLUMN_EXTRA * self.numbers.len();
        self.text.len() + longest <= limit
    }

    /// Add a row, columns separated by tabs, without its newline.
    pub fn push(&mut self, row: &str) {
        self.text.push_str(if self.is_empty() { "(" } else { ",(" });
        for (position, (value, number)) in row.split('\t').zip(&self.numbers).enumerate() {
            if position > 0 {
                self.text.push(',');
            }
            // No value holds a quote or a backslash.
            if *number {
                self.text.push_str(value);
            } else {
                self.text.push('\'');
                self.text.push_str(value);
                self.text.push('\'');
            }
        }
        self.text.push(')');
    }

    /// Begin the next statement.
    pub fn clear(&mut self) {
        self.text.truncate(self.head);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use datagen::TableRows;
    use datagen::column::{Integer, Source, Value};
    use workload::tables::ColumnName;

    fn statement() -> Statement {
        let column = |name: &str| ColumnName { name: name.to_owned(), binary: false };
        let id = Value::Integer(Integer { source: Source::Row, times: 1, plus: 0 });
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
        statement.push("-1\tab");
        statement.push("2\t7");
        assert_eq!(statement.text(), "INSERT INTO `t` (`id`, `c`) VALUES (-1,'ab'),(2,'7')");
        statement.clear();
        assert!(statement.is_empty());
        statement.push("3\t");
        assert_eq!(statement.text(), "INSERT INTO `t` (`id`, `c`) VALUES (3,'')");
    }

    #[test]
    fn a_statement_with_room_stays_within_its_limit() {
        let row = "123456\tabc";
        for limit in 60..200 {
            let mut statement = statement();
            while statement.has_room(row, limit) {
                statement.push(row);
            }
            assert!(statement.text().len() <= limit || statement.is_empty());
        }
    }
}
