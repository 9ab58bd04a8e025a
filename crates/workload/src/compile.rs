//! Compiles statements of a definition: chooses by level, fills placeholders, and cuts texts at
//! their parameters.

use super::definition::{
    Definition, FixedOrByLevel, Protocol, Remember, Statement as Written, Terms as WrittenTerms,
};
use super::generation::{GeneratorCompiler, Scope};
use super::generator::{MAX_PARAMETERS, ValueSource};
use super::statement::{Parameter, Statement, Terms, TextPieces};
use super::tables::Tables;
use super::tails::Remembered;
use super::values::{Values, mentions};
use crate::validation::{ValidationError, find, refused};

/// The maximum length of a command in bytes, so that it fits into one packet with room to spare.
const MAX_LENGTH: usize = (1 << 24) - 1024;

/// The maximum number of rows of a long answer, of its columns, and of ends that a client
/// remembers.
const MAX_REMEMBERED: i64 = 1 << 20;

/// The inputs for compiling statements.
pub struct CompileContext<'a> {
    pub definition: &'a Definition,
    pub values: &'a Values,
    pub tables: &'a Tables,
    pub protocol: Protocol,
}

/// The names of the generators that a statement needs from its step, each with its key in the
/// definition.
pub type RequiredGenerators = Vec<(String, String)>;

impl CompileContext<'_> {
    pub fn statement(
        &self,
        name: &str,
        key: &str,
        generators: &mut GeneratorCompiler<'_>,
    ) -> Result<(Statement, RequiredGenerators), ValidationError> {
        let written = find(&self.definition.statements, "statement", name, key)?;
        let key = format!("statements.{name}");
        let sql_key = format!("{key}.sql");
        let sql = self.values.choose(&written.sql, &sql_key)?;
        let (head, tail) = match (&written.terms, sql.split_once("{terms}")) {
            (Some(_), Some((head, tail))) => (head, tail),
            (None, None) => (sql.as_str(), ""),
            (Some(_), None) => return refused(sql_key, "has no {terms}, where the terms would go"),
            (None, Some(_)) => return refused(sql_key, "has {terms}, but there are none"),
        };
        let term = written.terms.as_ref().map_or("", |terms| &terms.sql);
        let per_table =
            [head, tail, term].iter().any(|text| mentions(text, "table") || mentions(text, "n"));

        let head = self.cut(head, per_table, &sql_key)?;
        let tail = self.cut(tail, per_table, &sql_key)?;
        let mut needs = named(&written.parameters, head.marks + tail.marks, &key)?;
        let mut scope = Scope::default();
        let mut parameters = compile_parameters(&needs, generators, &mut scope)?;
        let of_tail = parameters.split_off(head.marks);
        let mut statement = Statement::text(name, head.with(parameters));
        let terms = written.terms.as_ref();
        let key_of_terms = format!("{key}.terms");
        statement.terms = terms
            .map(|terms| {
                self.terms(terms, per_table, &key_of_terms, tail.with(of_tail), generators)
            })
            .transpose()?;
        check_length(&statement, &key)?;
        if let Some(remember) = &written.remember {
            let key = format!("{key}.remember");
            statement.remembers =
                Some(self.remembered(remember, &key, generators, &mut scope, &mut needs)?);
        }
        if self.is_prepared(written, &key)? {
            prepare(&mut statement, &key)?;
        }
        Ok((statement, needs))
    }

    /// Compile what a statement remembers; append the generators of the values to `needs`.
    fn remembered(
        &self,
        written: &Remember,
        key: &str,
        generators: &mut GeneratorCompiler<'_>,
        scope: &mut Scope,
        needs: &mut RequiredGenerators,
    ) -> Result<Remembered, ValidationError> {
        let number = |number, part: &str| {
            self.values.integer_in::<u32>(number, 1..=MAX_REMEMBERED, &format!("{key}.{part}"))
        };
        let mut sources = scope.generation.iter().map(|step| &generators.generator(step).source);
        let goes_on = sources.any(|source| matches!(source, ValueSource::Tail { .. }));
        let mut slots = Vec::new();
        for (position, name) in written.values.iter().enumerate() {
            let key = format!("{key}.values[{position}]");
            let slot = generators.slot(name, &key, scope)?;
            generators.check_integer(name, slot, scope, &key)?;
            slots.push(slot);
            needs.push((name.clone(), key));
        }
        Ok(Remembered {
            rows: number(&written.rows, "rows")?,
            column: number(&written.column, "column")? as usize - 1,
            slots,
            at_most: number(&written.at_most, "at_most")? as usize,
            goes_on,
        })
    }

    fn terms(
        &self,
        terms: &WrittenTerms,
        per_table: bool,
        key: &str,
        tail: TextPieces,
        generators: &mut GeneratorCompiler<'_>,
    ) -> Result<Terms, ValidationError> {
        let times = format!("{key}.times");
        let times = self.values.integer_in(&terms.times, 1..=MAX_PARAMETERS, &times)?;
        let cut = self.cut(&terms.sql, per_table, &format!("{key}.sql"))?;
        let mut scope = Scope::of_term();
        let needs = named(&terms.parameters, cut.marks, key)?;
        let parameters = compile_parameters(&needs, generators, &mut scope)?;
        Ok(Terms {
            times,
            join: self.values.fill(&terms.join, &format!("{key}.join"))?.into_bytes().into(),
            generation: scope.generation,
            pieces: cut.with(parameters),
            tail,
        })
    }

    /// Return the text for each table, cut at its question marks.
    fn cut(&self, sql: &str, per_table: bool, key: &str) -> Result<SplitText, ValidationError> {
        let mut fixed = Vec::new();
        let mut marks = 0;
        let names: &[String] = if per_table { &self.tables.names } else { &[] };
        for (n, name) in (1..).zip(names) {
            let pieces = split_at_marks(&self.values.of_table(n, name).fill(sql, key)?);
            marks = pieces.len() - 1;
            fixed.extend(pieces);
        }
        if names.is_empty() {
            // Without tables, the name of a table is reported as unknown.
            fixed = split_at_marks(&self.values.fill(sql, key)?);
            marks = fixed.len() - 1;
        }
        Ok(SplitText { fixed, marks })
    }

    fn is_prepared(&self, written: &Written, key: &str) -> Result<bool, ValidationError> {
        match written.protocol.as_deref() {
            None => Ok(self.protocol == Protocol::Prepared),
            Some("text") => Ok(false),
            Some(other) => {
                let message = format!("{other:?} is not known, expected \"text\"");
                refused(format!("{key}.protocol"), message)
            }
        }
    }
}

/// The texts of a statement, cut at their question marks.
struct SplitText {
    fixed: Vec<Box<[u8]>>,
    marks: usize,
}

impl SplitText {
    fn with(self, parameters: Vec<Parameter>) -> TextPieces {
        TextPieces { fixed: self.fixed, parameters }
    }
}

/// Check a statement that no test uses: its question marks, and the names of its generators.
pub fn statement_alone(definition: &Definition, name: &str) -> Result<(), ValidationError> {
    let written = &definition.statements[name];
    let key = format!("statements.{name}");
    let texts: Vec<&String> = match &written.sql {
        FixedOrByLevel::Always(sql) => vec![sql],
        FixedOrByLevel::By { levels, .. } => levels.values().collect(),
    };
    let terms = written.terms.as_ref();
    let of_terms = terms.map(|terms| (&terms.sql, &terms.parameters, format!("{key}.terms")));
    let of_texts = texts.into_iter().map(|sql| (sql, &written.parameters, key.clone()));
    for (sql, parameters, key) in of_texts.chain(of_terms) {
        let marks = split_at_marks(sql).len() - 1;
        for (generator, key) in named(parameters, marks, &key)? {
            find(&definition.generators, "generator", &generator, key)?;
        }
    }
    Ok(())
}

/// Return the generators for `marks` question marks, each with its key.
fn named(
    parameters: &[String],
    marks: usize,
    key: &str,
) -> Result<RequiredGenerators, ValidationError> {
    if parameters.len() != marks {
        let given = parameters.len();
        let message = format!("names {given} generators, but sql has {marks} question marks");
        return refused(format!("{key}.parameters"), message);
    }
    let named = parameters.iter().enumerate();
    Ok(named.map(|(at, name)| (name.clone(), format!("{key}.parameters[{at}]"))).collect())
}

/// Add the generators of a text's parameters to the scope.
fn compile_parameters(
    needs: &RequiredGenerators,
    generators: &mut GeneratorCompiler<'_>,
    scope: &mut Scope,
) -> Result<Vec<Parameter>, ValidationError> {
    let compile = |(name, key): &(String, String)| {
        let slot = generators.slot(name, key, scope)?;
        Ok(Parameter::of(generators.generator_of(slot, scope), slot))
    };
    needs.iter().map(compile).collect()
}

/// Return the parts of a statement's text between its question marks; a question mark in quotes is
/// text.
fn split_at_marks(sql: &str) -> Vec<Box<[u8]>> {
    let mut pieces = Vec::new();
    let mut piece = Vec::new();
    let mut quote = None;
    let mut bytes = sql.bytes();
    while let Some(byte) = bytes.next() {
        match (quote, byte) {
            (None, b'?') => {
                pieces.push(std::mem::take(&mut piece).into());
                continue;
            }
            (None, b'\'' | b'"' | b'`') => quote = Some(byte),
            (Some(open), _) if open == byte => quote = None,
            (Some(b'\'' | b'"'), b'\\') => {
                piece.push(byte);
                piece.extend(bytes.next());
                continue;
            }
            _ => {}
        }
        piece.push(byte);
    }
    pieces.push(piece.into());
    pieces
}

fn check_length(statement: &Statement, key: &str) -> Result<(), ValidationError> {
    let length = statement.longest();
    if length <= MAX_LENGTH {
        return Ok(());
    }
    refused(key, format!("may be {length} bytes long, and a command at most {MAX_LENGTH}"))
}

fn prepare(statement: &mut Statement, key: &str) -> Result<(), ValidationError> {
    if statement.varies() {
        let message = "is prepared, but a list among its parameters has a random length; \
                       protocol = \"text\" allows that";
        return refused(key, message);
    }
    statement.prepare();
    let count = statement.kinds.len();
    if i64::try_from(count).is_ok_and(|count| count <= MAX_PARAMETERS) {
        return Ok(());
    }
    let message = format!(
        "has {count} parameters, a prepared statement at most {MAX_PARAMETERS}; \
         protocol = \"text\" knows no limit"
    );
    refused(key, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(sql: &str) -> Vec<String> {
        let text = |piece: Box<[u8]>| String::from_utf8(piece.into()).unwrap();
        split_at_marks(sql).into_iter().map(text).collect()
    }

    #[test]
    fn question_marks_in_quotes_are_text() {
        assert_eq!(pieces("a = ? AND b = ?"), ["a = ", " AND b = ", ""]);
        assert_eq!(
            pieces(r#"'?' "?" `?` 'it''s ?' 'a\'?' = ?"#),
            [r#"'?' "?" `?` 'it''s ?' 'a\'?' = "#, ""]
        );
        assert_eq!(pieces(r"'a\\' = ?"), [r"'a\\' = ", ""]);
        assert_eq!(pieces(r"`a\` = ?"), [r"`a\` = ", ""]);
        assert_eq!(pieces(""), [""]);
    }
}
