from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from millrace.errors import UserError, ValidationError
from millrace.experiment.read import read
from millrace.model.servers import AttachedServer
from millrace.servers.attached import AttachedInstance, with_tls
from millrace.tls import Tls
from tests.unit.experiment.files import CONTEXT, SMALL

WITH_STAGING = replace(CONTEXT, servers=[*CONTEXT.servers, "staging"], attached=["staging"])


def read_tls(directory: Path, table: str) -> Tls:
    path = directory / "experiment.toml"
    path.write_text(f"{SMALL}\n[tls.staging]\n{table}\n")
    return read(path, scale=None, context=WITH_STAGING).tls["staging"]


def test_experiment_defines_tls_of_an_attached_server(tmp_path: Path) -> None:
    asked = read_tls(tmp_path, 'mode = "verify-ca"\nca = "/etc/ssl/our ca.pem"')
    assert asked == Tls("verify-ca", Path("/etc/ssl/our ca.pem"))
    assert read_tls(tmp_path, 'mode = "required"\nallow_unverified = true').allow_unverified
    for dsn in (
        "mysql://me:a%40b@db.test/?tls=required&allow-unverified=yes",
        "mysql://me:a%40b@db.test/?tls=verify-identity&ca=/other.pem",
        "mysql://me:a%40b@/?socket=/run/mysqld.sock",
    ):
        reached = AttachedInstance(with_tls(AttachedServer("staging", "mysql", dsn), asked))
        assert (reached.tls, reached.password) == (asked, "a@b")
        assert reached.socket == (Path("/run/mysqld.sock") if "socket" in dsn else None)


@pytest.mark.parametrize(
    ("table", "where", "said"),
    [
        ("", "tls.staging.mode", "is missing"),
        ('mode = "on"', "tls.staging.mode", '"on" is not a mode'),
        ('mode = "required"\nca = "/ca.pem"', "tls.staging.ca", "verifies nothing"),
        ('mode = "verify-ca"', "tls.staging.ca", "is missing"),
        ('mode = "verify-ca"\nca = "ca.pem"', "tls.staging.ca", "not an absolute"),
        ('mode = "verify-ca"\nca = 3', "tls.staging.ca", "not an absolute"),
        (
            'mode = "required"\nallow_unverified = "yes"',
            "tls.staging.allow_unverified",
            'got "yes"',
        ),
        ('mode = "required"\nkey = "x"', "tls.staging.key", "unknown key"),
        (
            'mode = "required"\n[tls.other]\nmode = "required"',
            "tls.other",
            "not an attached server",
        ),
    ],
)
def test_a_mistake_is_named_at_its_place(tmp_path: Path, table: str, where: str, said: str) -> None:
    with pytest.raises(ValidationError, match=said) as caught:
        read_tls(tmp_path, table)
    assert [each.where for each in caught.value.diagnostics] == [where]


@pytest.mark.parametrize(
    "asked",
    [
        {"mode": "on"},
        {"mode": "verify-ca"},
        {"mode": "verify-identity", "ca": "ca.pem"},
        {"mode": "required", "ca": "/ca.pem"},
        {"mode": "disabled", "ca": "/ca.pem"},
    ],
    ids=str,
)
def test_an_address_is_held_to_the_same_rules_in_the_same_words(
    tmp_path: Path, asked: dict[str, str]
) -> None:
    table = "\n".join(f'{key} = "{value}"' for key, value in asked.items())
    with pytest.raises(ValidationError) as of_table:
        read_tls(tmp_path, table)
    query = "&".join(f"{key}={value}" for key, value in asked.items()).replace("mode=", "tls=")
    with pytest.raises(UserError) as of_address:
        AttachedInstance(AttachedServer("staging", "mysql", f"mysql://me:x@db.test/?{query}"))
    (mistake,) = of_table.value.diagnostics
    said = f"{mistake.message}; expected {mistake.expected}"
    assert said.replace('"', "'") in of_address.value.message
