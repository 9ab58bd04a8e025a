"""Test which settings of a server may be stored: those that cannot hold its owner's secrets."""

from __future__ import annotations

import pytest

from millrace import databases
from millrace.analysis.explain.causes.known import known
from millrace.databases.base import WITHHELD, StoredSettings

SECRETS = {
    "report_password": "hunter2",
    "init_connect": "SET @key = 'hunter2'",
    "init_replica": "CALL login('hunter2')",
    "authentication_ldap_simple_bind_root_pwd": "hunter2",
    "keyring_hashicorp_secret_id": "0123-4567",
    "keyring_aws_cmk_id": "arn:aws:kms:eu:1234:key/abcd",
    "server_audit_syslog_info": "hunter2",
    "wsrep_provider_options": "socket.ssl_password=hunter2",
    "wsrep_sst_auth": "sst:hunter2",
    "a_plugin_that_nobody_knows_login": "hunter2",
    "ssl_key": "/home/alice/secret.pem",
    "datadir": "/home/alice/shop",
    # A password may look like a number.
    "master_password": "20190401",
    "some_plugin_pwd": "1234",
    "vault_token": "998877",
}


@pytest.mark.parametrize("family", ["mysql", "mariadb"])
def test_a_text_is_withheld_unless_its_variable_is_known(family: str) -> None:
    settings = databases.get(family).stored_settings
    assert settings.of(SECRETS) == dict.fromkeys(SECRETS, WITHHELD)


@pytest.mark.parametrize("family", ["mysql", "mariadb"])
def test_switches_numbers_and_known_words_are_kept(family: str) -> None:
    harmless = {
        "innodb_buffer_pool_size": "134217728",
        "long_query_time": "10.000000",
        "innodb_max_purge_lag": "-1",
        "have_ssl": "DISABLED",
        "log_bin": "ON",
        "a_plugin_that_nobody_knows_size": "4096",
        "init_connect": "",
        "report_password": "",
        "optimizer_switch": "mrr=on,hash_join=off",
        "innodb_flush_method": "O_DIRECT",
        "sql_mode": "STRICT_TRANS_TABLES",
        "version": "8.0.33",
        "character_set_server": "utf8mb4",
        "foreign_key_checks": "ON",
        "key_buffer_size": "8388608",
        "innodb_ft_min_token_size": "3",
    }
    assert databases.get(family).stored_settings.of(harmless) == harmless


def test_a_setting_of_the_users_own_experiment_is_kept() -> None:
    settings = StoredSettings()
    effective = {"init_connect": "SET autocommit = 0", "report_user": "alice"}
    assert settings.of(effective, own={"init_connect"}) == {
        "init_connect": "SET autocommit = 0",
        "report_user": WITHHELD,
    }


def test_a_digest_that_looks_like_a_long_number_is_withheld() -> None:
    assert StoredSettings().of({"x": "1" * 40, "y": "1" * 20}) == {"x": WITHHELD, "y": "1" * 20}


@pytest.mark.parametrize("family", ["mysql", "mariadb"])
def test_the_words_that_explanations_rank_are_kept(family: str) -> None:
    settings = databases.get(family).stored_settings
    ranked = [
        (name, word)
        for topic in known().topic
        for setting in topic.settings
        if isinstance(setting.dearer, tuple)
        for name in set(setting.names) - {"transport"}  # a factor
        for word in setting.dearer
    ]
    assert ("binlog_row_image", "minimal") in ranked
    assert [each for each in ranked if settings.of({each[0]: each[1]}) != {each[0]: each[1]}] == []
