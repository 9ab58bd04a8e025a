"""Test the purpose of functions by their names."""

from collections import Counter

import pytest

from millrace.analysis.explain.function_groups import group_of, groups, own_group
from tests.support.known import known

SERVER, KERNEL, LIBC = "mysqld", "[kernel]", "libc.so"


@pytest.mark.parametrize(
    ("symbol", "group"),
    [
        ("MYSQLparse", "parser"),
        ("Lex_input_stream::lex_one_token", "parser"),
        ("open_tables", "preparation"),
        ("lock_table_names", "preparation"),  # more letters than lock_*
        ("Item_field::fix_fields", "preparation"),
        ("JOIN::optimize_inner", "optimiser"),
        ("JOIN::exec_inner", "execution"),
        ("Item_func_between::val_int", "execution"),
        ("my_net_write", "protocol"),
        ("Field_long::send_binary", "protocol"),
        ("ha_innobase::index_read", "engine_interface"),
        ("ha_commit_trans", "transaction"),
        ("trx_undo_assign_undo", "transaction"),
        ("row_search_mvcc", "btree"),
        ("btr_cur_search_to_nth_level", "btree"),
        ("btr_estimate_n_rows_in_range_low", "optimiser"),
        ("buf_page_get_gen", "buffer_pool"),
        ("buf_calc_page_new_checksum", "checksums"),
        ("mtr_t::commit", "redo_log"),
        ("mtr_memo_slot_release_func", "locking"),
        ("memo_slot_release", "locking"),
        ("mtr_t::memo_push", "locking"),
        ("mtr_t::release_block_at_savepoint", "locking"),
        ("log_write_up_to", "redo_log"),
        ("MYSQL_BIN_LOG::ordered_commit", "binary_log"),
        ("Table_map_log_event::Table_map_log_event", "binary_log"),
        ("lock_rec_lock", "locking"),
        ("MDL_context::acquire_lock", "locking"),
        ("ut_delay", "spinning"),
        ("rw_lock_s_lock_spin", "spinning"),
        ("pfs_start_mutex_wait_v1", "instrumentation"),
        ("end_statement_v1", "instrumentation"),
        ("alloc_root", "memory"),
        ("my_hash_sort_simple", "character_sets"),
        ("READ_INFO::read_field", "load_data"),
        ("mi_write", "myisam"),
        ("deflate_slow", "compression"),
        ("aesni_gcm_encrypt", "encryption"),
    ],
)
def test_functions_of_servers(symbol: str, group: str) -> None:
    found = known(own_group(SERVER, symbol))
    assert found.name == group


@pytest.mark.parametrize(
    ("symbol", "group"),
    [
        ("finish_task_switch", "kernel_scheduling"),
        ("unix_stream_read_generic", "kernel_network"),
        ("tcp_sendmsg_locked", "kernel_network"),
        ("ext4_sync_file", "kernel_files"),
        ("blk_mq_submit_bio", "kernel_files"),
        ("kmem_cache_free", "kernel_memory"),
        ("futex_wake", "kernel_locks"),
        ("do_syscall_64", "kernel_entry"),
    ],
)
def test_functions_of_the_kernel(symbol: str, group: str) -> None:
    found = known(own_group(KERNEL, symbol))
    assert found.name == group
    assert found.kernel


def test_generic_functions_have_a_group_of_their_own_whoever_calls_them() -> None:
    path = [(SERVER, "row_search_mvcc"), (LIBC, "__memmove_avx_unaligned_erms")]
    assert group_of(path).name == "copying"
    assert group_of([(SERVER, "MYSQLparse"), (LIBC, "malloc")]).name == "memory"


def test_unknown_name_has_the_group_of_its_caller() -> None:
    parsing = [(SERVER, "do_command"), (SERVER, "MYSQLparse"), (SERVER, "frobnicate")]
    assert group_of(parsing).name == "parser"
    assert group_of([(SERVER, "frobnicate")]).name == "other"
    locked = [(SERVER, "vio_read"), (KERNEL, "unix_stream_sendmsg"), (KERNEL, "_raw_spin_lock")]
    assert group_of(locked).name == "kernel_network"
    # A function of the kernel is not the server's, whichever code made the system call.
    assert group_of([(SERVER, "MYSQLparse"), (KERNEL, "frobnicate")]).name == "kernel_other"
    assert group_of([]).name == "other"


def test_a_function_without_a_name_belongs_to_its_library_or_to_nobody() -> None:
    assert group_of([(SERVER, "row_search_mvcc"), (SERVER, "[unknown]")]).name == "unnamed"
    assert group_of([(SERVER, "row_search_mvcc"), (LIBC, "[unknown]")]).name == "c_library"
    assert group_of([("libcrypto.so", "[unknown]")]).name == "encryption"
    assert group_of([("libz.so", "whatever")]).name == "compression"


def test_each_rule_is_there_once() -> None:
    written = Counter((g.kernel, name) for g in groups() for name in g.functions)
    assert [name for name, count in written.items() if count > 1] == []
    names = [group.name for group in groups()]
    assert len(set(names)) == len(names)
    assert {"other", "kernel_other", "spinning", "unnamed"} <= set(names)
