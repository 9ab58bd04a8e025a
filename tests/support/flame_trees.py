"""Build call trees: one by hand, one from folded stacks, random ones."""

from collections.abc import Iterable

from hypothesis import strategies as st

from millrace.analysis.explain.call_tree import CallNode

# Folded stacks of two servers' CPU profiles in microseconds per insert, shortened.
STACKS = """
connection;mysqld`handle_connection;mysqld`do_command(THD*) 1.1 0.9
connection;mysqld`handle_connection;mysqld`do_command(THD*);mysqld`Protocol_classic::read_packet() 0.5 0.9
connection;mysqld`handle_connection;mysqld`do_command(THD*);mysqld`Protocol_classic::read_packet();libc.so.6`__recv;[kernel]`entry_SYSCALL_64;[kernel]`do_syscall_64;[kernel]`tcp_recvmsg 4.2 4.3
connection;mysqld`handle_connection;mysqld`do_command(THD*);mysqld`dispatch_command 0.7 1.9
connection;mysqld`handle_connection;mysqld`do_command(THD*);mysqld`dispatch_command;mysqld`MYSQLparse(THD*, Parse_tree_root**) 3.1 4.9
connection;mysqld`handle_connection;mysqld`do_command(THD*);mysqld`dispatch_command;mysqld`lex_one_token(YYSTYPE*, THD*) 1.2 2.4
connection;mysqld`handle_connection;mysqld`do_command(THD*);mysqld`dispatch_command;mysqld`mysql_insert(THD*, TABLE_LIST*) 6.1 0
connection;mysqld`handle_connection;mysqld`do_command(THD*);mysqld`dispatch_command;mysqld`mysql_insert(THD*, TABLE_LIST*);mysqld`ha_innobase::write_row(unsigned char*) 11.3 0
connection;mysqld`handle_connection;mysqld`do_command(THD*);mysqld`dispatch_command;mysqld`Sql_cmd_insert_values::execute_inner(THD*) 0 8.7
connection;mysqld`handle_connection;mysqld`do_command(THD*);mysqld`dispatch_command;mysqld`Sql_cmd_insert_values::execute_inner(THD*);mysqld`ha_innobase::write_row(unsigned char*) 0 13.6
connection;mysqld`handle_connection;mysqld`do_command(THD*);mysqld`dispatch_command;mysqld`Sql_cmd_insert_values::execute_inner(THD*);mysqld`ha_innobase::write_row(unsigned char*);mysqld`log_buffer_write(log_t&, unsigned char const*) 0 2.4
connection;mysqld`handle_connection;mysqld`do_command(THD*);mysqld`dispatch_command;mysqld`trans_commit_stmt(THD*, bool) 2.2 2.8
connection;mysqld`handle_connection;mysqld`do_command(THD*);mysqld`dispatch_command;mysqld`trans_commit_stmt(THD*, bool);mysqld`log_write_up_to 3.0 0.4
connection;mysqld`handle_connection;mysqld`do_command(THD*);mysqld`net_send_ok;libc.so.6`__send;[kernel]`entry_SYSCALL_64;[kernel]`do_syscall_64;[kernel]`tcp_sendmsg 5.4 5.2
connection;mysqld`handle_connection;mysqld`rarely 0.01 0.02
log;mysqld`log_writer(log_t*) 0 1.6
log;mysqld`log_writer(log_t*);libc.so.6`pwrite64;[kernel]`ext4_file_write_iter 0 0.8
page_cleaner;mysqld`buf_flush_page_cleaner 0.6 0.9
"""  # noqa: E501


def tree(text: str = STACKS) -> CallNode:
    """Return a tree of folded stacks with two weights per line."""
    rows = []
    for line in text.strip().splitlines():
        path, a, b = line.rsplit(" ", 2)
        rows.append((path.split(";"), float(a), float(b)))
    return _node("all", rows)


def _node(frame: str, rows: Iterable[tuple[list[str], float, float]]) -> CallNode:
    rows = list(rows)
    below: dict[str, list[tuple[list[str], float, float]]] = {}
    for path, a, b in rows:
        if path:
            below.setdefault(path[0], []).append((path[1:], a, b))
    module, _, name = frame.rpartition("`")
    return CallNode(
        name,
        module,
        sum(a for _, a, _ in rows),
        sum(b for _, _, b in rows),
        tuple(_node(child, of_child) for child, of_child in below.items()),
    )


_weights = st.floats(0, 1e4) | st.just(0.0)
_names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8)


def _with_children(children: st.SearchStrategy[CallNode]) -> st.SearchStrategy[CallNode]:
    def build(name: str, module: str, own: tuple[float, float], below: list[CallNode]) -> CallNode:
        return CallNode(
            name,
            module,
            own[0] + sum(child.a_us for child in below),
            own[1] + sum(child.b_us for child in below),
            tuple(below),
        )

    weights = st.tuples(_weights, _weights)
    return st.builds(build, _names, _names, weights, st.lists(children, max_size=4))


trees = st.recursive(
    st.builds(CallNode, _names, _names, _weights, _weights), _with_children, max_leaves=25
)
