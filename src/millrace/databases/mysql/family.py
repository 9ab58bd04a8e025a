"""Read the families of the mysqld line, one TOML file each."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from millrace.databases import base
from millrace.databases.mysql.administration import (
    MysqlAdministration,
    MysqlLoadDialect,
    MysqlSelfTest,
)
from millrace.databases.mysql.client import connect
from millrace.databases.mysql.data_directory import MysqlSnapshotRules
from millrace.databases.mysql.lifecycle import InitialisationEntry, MysqlLifecycle, StartEntry
from millrace.databases.mysql.monitoring import MysqlMonitoring
from millrace.databases.mysql.options import MysqlOptions
from millrace.databases.mysql.packaging import PROGRAMS, MysqlPackaging
from millrace.databases.mysql.query import observable
from millrace.databases.mysql.replication import MysqlReplication, ReplicationWords
from millrace.databases.mysql.storage import FlushOverride, InnodbStorage
from millrace.databases.mysql.table_formats import MysqlTableFormats, PluginEngine, StartOptions

Data = Mapping[str, Any]

_COMMON = Path(__file__).with_name("mysqld.toml")


def read_family(source: Path) -> base.Family:
    """Return the family that a TOML file describes."""
    data = tomllib.loads(source.read_text(encoding="utf-8"))
    common = tomllib.loads(_COMMON.read_text(encoding="utf-8"))

    def listed(key: str) -> tuple[str, ...]:
        return (*common[key], *data[key])

    storage = _storage(common["storage"], data["storage"])
    return base.Family(
        name=data["name"],
        title=data["title"],
        identification=re.compile(data["identification"]),
        host_variables=listed("host_variables"),
        stored_settings=base.StoredSettings(
            tuple(common["stored_texts"]), tuple(common["secret_numbers"])
        ),
        scheme="mysql",
        port=3306,
        account="root",
        programs=PROGRAMS,
        has_process_per_session=False,
        connect=connect,
        packaging=MysqlPackaging(),
        lifecycle=MysqlLifecycle(
            tuple(InitialisationEntry.model_validate(each) for each in data["initialisation"]),
            tuple(StartEntry.model_validate(each) for each in data["start"]),
            tuple(StartEntry.model_validate(each) for each in data.get("valgrind_start", ())),
        ),
        log=_log_patterns(common["log"]),
        options=MysqlOptions(
            administrative=frozenset(listed("administrative_options")),
            init_options=frozenset(listed("init_options")),
            runtime_only=listed("runtime_only_options"),
            replacements=tuple(base.Replacement(**pair) for pair in data.get("replacement", ())),
            successors=tuple(base.Successor(**each) for each in common["successor"]),
            has_one_log_file_since=_version(data.get("has_one_log_file_since")),
            keeps_binary_log_since=_version(data.get("keeps_binary_log_since")),
            file_groups=tuple(data["file_groups"]),
            own_files=frozenset(common["own_file_options"]),
            memory=frozenset(common["memory_options"]),
            needs_others=tuple(common["cluster_options"]),
            read_only=frozenset(common["read_only_options"]),
            needs=common["option_needs"],
            secrets=tuple(common["secret_numbers"]),
        ),
        administration=MysqlAdministration(),
        load_dialect=MysqlLoadDialect(),
        self_test=MysqlSelfTest(),
        storage=storage,
        table_formats=_table_formats(data, common["compression"]["levels"]),
        snapshots=MysqlSnapshotRules(tuple(data["forget_binary_log"].items())),
        replication=MysqlReplication(
            ReplicationWords.model_validate(data["replication"]), data["forget_binary_log"]
        ),
        monitoring=MysqlMonitoring(observable(common["observable"], data["observable"]), storage),
    )


def _log_patterns(data: Data) -> base.LogPatterns:
    return base.LogPatterns(
        error=re.compile(data["error"].encode()),
        no_error=re.compile(data["no_error"].encode()),
        before_error=re.compile(data["before_error"]),
        before_words=re.compile(data["before_words"]),
        trouble=re.compile(data["trouble"].encode()),
        disk_full=re.compile(data["disk_full"]),
        reasons=tuple(
            (re.compile(each["pattern"].encode()), each["meaning"]) for each in data["reasons"]
        ),
    )


def _storage(common: Data, data: Data) -> InnodbStorage:
    return InnodbStorage(
        query=common["query"],
        figures={name: re.compile(pattern) for name, pattern in common["figures"].items()},
        overrides=tuple(FlushOverride(**each) for each in data["flush_override"]),
    )


def _table_formats(data: Data, levels: Mapping[str, str]) -> MysqlTableFormats:
    compression = data["compression"]
    engines = (PluginEngine.model_validate(each) for each in data.get("engine", ()))
    return MysqlTableFormats(
        title=data["title"],
        levels={**levels, **compression["levels"]},
        page_since=compression["page_since"],
        preallocates=compression["preallocates"],
        starts=tuple(StartOptions.model_validate(each) for each in compression["start"]),
        engines={engine.name.lower(): engine for engine in engines},
    )


def _version(text: str | None) -> tuple[int, ...] | None:
    return None if text is None else base.version_key(text)
