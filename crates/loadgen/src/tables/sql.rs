//! Statements about tables, as text.

use workload::tables::{ColumnName, Table};

/// The format of texts: bytes are taken as they are, so it names no character set.
pub const TEXTS: &str = "";

/// The format of values of any bytes from 32 on, none of which begins an escape.
pub const BYTES: &str = " CHARACTER SET binary FIELDS ESCAPED BY ''";

/// Return an identifier in backticks.
pub fn quoted(identifier: &str) -> String {
    format!("`{}`", identifier.replace('`', "``"))
}

/// Return whether a definition names another table by a FOREIGN KEY, perhaps in a comment only.
pub fn refer_to_others(tables: &[Table]) -> bool {
    let texts = tables.iter().flat_map(|table| table.after_load.iter().chain([&table.create]));
    texts.into_iter().any(|text| text.to_ascii_uppercase().contains("REFERENCES"))
}

/// Return the statement that loads a table `from` a source (`INFILE '/tmp/x'`) with a `format`; no
/// columns stand for all of them.
pub fn load_data<'a>(
    from: &str,
    table: &str,
    format: &str,
    columns: impl IntoIterator<Item = &'a str>,
) -> String {
    let table = quoted(table);
    let columns = list(columns);
    if columns.is_empty() {
        return format!("LOAD DATA {from} INTO TABLE {table}{format}");
    }
    format!("LOAD DATA {from} INTO TABLE {table}{format} ({columns})")
}

/// Return the beginning of an INSERT, up to its first row.
pub fn insert(table: &Table) -> String {
    let columns = list(table.columns.iter().map(|column| column.name.as_str()));
    format!("INSERT INTO {} ({columns}) VALUES ", quoted(&table.name))
}

/// Count and checksum of a table's rows, the same in every family and version.
///
/// CHECKSUM TABLE is not portable; the sum of the rows' CRC32 is, when numbers are compared as
/// text, and text as bytes where the table's character set is not the connection's.
pub fn checksum(table: &Table) -> String {
    let columns: Vec<String> = table.columns.iter().map(text_of).collect();
    format!(
        "SELECT count(*), sum(crc32(concat_ws('\\t', {}))) FROM {}",
        columns.join(", "),
        quoted(&table.name)
    )
}

/// Return the text of a column's values, as in the rows of a file.
pub fn text_of(column: &ColumnName) -> String {
    let name = quoted(&column.name);
    let text = if column.binary { format!("CAST({name} AS BINARY)") } else { name };
    // What a backslash in quotes means depends on the sql_mode.
    if column.nullable { format!("IFNULL({text}, x'5C4E')") } else { text }
}

fn list<'a>(columns: impl IntoIterator<Item = &'a str>) -> String {
    let columns: Vec<String> = columns.into_iter().map(quoted).collect();
    columns.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_statements() {
        assert_eq!(
            load_data("LOCAL INFILE 'nodes'", "nodes", TEXTS, ["id", "a`b"]),
            "LOAD DATA LOCAL INFILE 'nodes' INTO TABLE `nodes` (`id`, `a``b`)"
        );
        assert_eq!(
            load_data("INFILE '/tmp/x'", "nodes", TEXTS, []),
            "LOAD DATA INFILE '/tmp/x' INTO TABLE `nodes`"
        );
    }
}
