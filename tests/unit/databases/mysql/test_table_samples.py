"""Test that statements that read a table are reproducible and quote everything."""

import pytest

from millrace.databases.mysql.table_samples import Column, KeyPart, Table

ID = Column("id", False, "int", None)
NOTE = Column("no`te", True, "varchar", "utf8mb4")
BY_ID = (KeyPart("id", None, True),)


def table(*columns: Column, key: tuple[KeyPart, ...] = BY_ID) -> Table:
    return Table("d", "t`1", columns, key)


def test_names_are_quoted_and_null_is_a_value() -> None:
    row = "CONCAT_WS(0x09, CAST(`id` AS BINARY), IFNULL(CAST(`no``te` AS BINARY), 0x00))"
    assert table(ID, NOTE).whole() == f"SELECT COUNT(*), SUM(CRC32({row})) FROM `d`.`t``1`"
    assert table(ID, NOTE).part("_latin1 X'37'", 8) == (
        f"SELECT COUNT(*), SUM(value) FROM (SELECT CRC32({row}) AS value "
        "FROM `d`.`t``1` FORCE INDEX (PRIMARY) WHERE `id` >= _latin1 X'37' "
        "ORDER BY `id` ASC LIMIT 8) AS part"
    )


def test_all_columns_of_a_key_order_its_rows() -> None:
    key = (KeyPart("id", None, True), KeyPart("no`te", None, True))
    assert "ORDER BY `id` DESC, `no``te` DESC LIMIT 8" in table(ID, NOTE, key=key).last_part(8)


def test_the_next_value_is_looked_for_beyond_the_last() -> None:
    assert table(ID).value_at(7, beyond=None).endswith("(PRIMARY) ORDER BY `id` LIMIT 1 OFFSET 7")
    beyond = table(ID).value_at(7, beyond="X'00'")
    assert beyond.endswith(" WHERE `id` > X'00' ORDER BY `id` LIMIT 1 OFFSET 6")


@pytest.mark.parametrize(
    ("column", "key"),
    [
        (ID, ()),
        (ID, (KeyPart("id", 3, True),)),
        (ID, (KeyPart("id", None, False),)),
        (ID, (KeyPart("id", None, True), KeyPart("other", 2, True))),
        (ID, (KeyPart("hidden", None, True),)),
        (Column("id", False, "float", None), BY_ID),
        (Column("id", False, "uuid", None), BY_ID),
    ],
)
def test_rows_without_an_order_to_rely_on_are_not_sampled(
    column: Column, key: tuple[KeyPart, ...]
) -> None:
    assert table(ID).first == ID
    assert table(column, key=key).first is None


def test_values_are_written_as_their_column_takes_them() -> None:
    assert ID.literal("2D37") == "_latin1 X'2D37'"
    assert NOTE.literal("C3A4") == "_utf8mb4 X'C3A4'"
    assert Column("id", False, "varbinary", None).literal("") == "X''"


def test_what_a_server_gives_for_a_value_is_nothing_but_hex() -> None:
    with pytest.raises(ValueError, match="not hex"):
        ID.literal("37' OR '1")
    with pytest.raises(ValueError, match="not a character set"):
        Column("id", False, "char", "latin1 X''; DROP").literal("37")
