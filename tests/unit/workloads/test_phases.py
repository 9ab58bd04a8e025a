from typing import Any

import pydantic
import pytest

from millrace.workloads.phases import Statements, split

BODY = "CREATE PROCEDURE work(n INT) BEGIN DECLARE i INT; SET i = n; SELECT i; END"


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("SET x = 1; SET y = 2", ["SET x = 1", "SET y = 2"]),
        (" ;; SET x = 1 ; \n", ["SET x = 1"]),
        ("", []),
        ("INSERT t VALUES ('a;b', \"c;d\"); SELECT `e;f`",
         ["INSERT t VALUES ('a;b', \"c;d\")", "SELECT `e;f`"]),
        (r"SELECT 'it''s; \'; all'; SELECT 1", [r"SELECT 'it''s; \'; all'", "SELECT 1"]),
        ("SELECT 1 /* a; b */; SELECT 2 -- c; d\n; SELECT 3 # e; f",
         ["SELECT 1 /* a; b */", "SELECT 2 -- c; d", "SELECT 3 # e; f"]),
        ("-- only a comment; not two\n; SELECT 1", ["SELECT 1"]),
        ("/*!50000 SET x = 1; */; SELECT 1", ["/*!50000 SET x = 1; */", "SELECT 1"]),
        ("SELECT 5--1; SELECT 2", ["SELECT 5--1", "SELECT 2"]),
        ("SELECT 'open; text", ["SELECT 'open", "text"]),
    ],
)  # fmt: skip
def test_semicolons_separate_outside_of_quotes_and_comments(
    text: str, statements: list[str]
) -> None:
    assert split(text) == statements


def test_list_of_statements_is_not_split() -> None:
    listed = ["DROP PROCEDURE IF EXISTS work", f"{BODY};", "SET x = {n}"]
    sent = Statements.model_validate({"sql": listed})
    assert sent.statements({"n": 3}, {}) == (*listed[:2], "SET x = 3")


def test_levels_may_have_lists_and_texts() -> None:
    sent = Statements.model_validate(
        {"by": "how", "sql": {"body": [BODY], "none": "", "default": "SET x = 1; SET y = 2"}}
    )
    assert sent.statements({"how": "body"}, {}) == (BODY,)
    assert sent.statements({"how": "none"}, {}) == ()
    assert sent.statements({"how": "other"}, {}) == ("SET x = 1", "SET y = 2")


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (BODY, "write sql as a list of statements"),
        (f"DROP PROCEDURE IF EXISTS work; {BODY}", "write sql as a list of statements"),
        (
            "CREATE TRIGGER t BEFORE INSERT ON x FOR EACH ROW IF NEW.a THEN SET @b = 1; END IF",
            "list",
        ),
        ("BEGIN NOT ATOMIC SELECT 1; END", "list of statements"),
        ("DELIMITER //\nSELECT 1//", "DELIMITER is a command of the mysql client"),
        (["-- x\ndelimiter ;"], "delimiter is a command of the mysql client"),
        (["SET x = 1", " "], "an empty statement"),
        (["SET x = 1", "-- nothing"], "an empty statement"),
        ({"a": "SET x = 1"}, "if 'by' names a factor"),
    ],
)
def test_sql_that_cannot_be_sent_is_refused(sql: Any, message: str) -> None:
    with pytest.raises(pydantic.ValidationError, match=message):
        Statements.model_validate({"sql": sql})


@pytest.mark.parametrize(
    "sql",
    [
        "BEGIN; INSERT INTO t VALUES (1); COMMIT",
        "DROP TRIGGER IF EXISTS a; CREATE TABLE t (begin_at INT)",
        "CREATE TRIGGER a BEFORE INSERT ON t FOR EACH ROW SET NEW.x = 1; SELECT 'BEGIN'",
        "CREATE PROCEDURE p() BEGIN END",
        "CREATE TABLE event_types (id INT); BEGIN; COMMIT",
    ],
)
def test_simple_statements_need_no_list(sql: str) -> None:
    assert Statements.model_validate({"sql": sql}).sql == sql
