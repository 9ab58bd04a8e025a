"""Provide the ``millrace`` command: assemble the commands, map errors to exit statuses."""

import os
import sys
from collections.abc import Iterable
from importlib import import_module
from io import StringIO

import click

from millrace import __version__, paths
from millrace.cli.console import discard, err, guard_streams, show_error
from millrace.cli.options import PASSWORD_VARIABLE
from millrace.errors import Interrupted, MillraceError, nearest_names

# In the order of a user's work. Each is a module of this package that exports `command`.
COMMANDS = {
    "doctor": "Show what makes results on this host less trustworthy.",
    "servers": "List, install, check and add servers.",
    "snapshots": "List and remove the data directories kept for trials.",
    "config": "Show and compare server configurations.",
    "plan": "Print the trials of an experiment, and estimate time and disk.",
    "run": "Measure an experiment, or resume it.",
    "count": "Count the instructions that servers execute for a statement.",
    "report": "Show the verdicts of a run.",
    "explain": "Explain where the time of an operation goes, and why treatments differ.",
    "calibrate": "Measure how far verdicts can be trusted on this host.",
    "bisect": "Find the server in a list at which performance changed.",
    "analyze": "Analyze numbers of any benchmark.",
    "history": "Watch performance from version to version.",
    "results": "List, show, move and remove stored runs.",
}


class LazyCommands(click.Group):
    """The commands, each imported on use: `millrace servers list` loads no statistics."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"millrace.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="millrace")
@click.pass_context
def cli(context: click.Context) -> None:
    """Find out whether a database got slower, by how much, and why.

    Start with `millrace run experiments/load-data.toml --scale demo`.
    """
    # Child processes must not inherit the password.
    context.obj = os.environ.pop(PASSWORD_VARIABLE, None)


def main() -> None:
    """Run the command line and exit with a status.

    0: done; 2: user error; 3: failed trial; 4: host error; 10 or 11: ``--fail-on``;
    130: interrupted.
    """
    guard_streams()
    os.umask(os.umask(0o077) | 0o022)  # no group and no other user may write to our files
    sys.exit(_exit_status())


def _exit_status() -> int:
    try:
        cli.main(prog_name="millrace", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.ClickException as error:
        message = StringIO()
        _with_near_names(error).show(message)
        err.print(message.getvalue(), end="")
        return error.exit_code
    except MillraceError as error:
        show_error(error)
        return error.exit_status
    except (KeyboardInterrupt, click.Abort):
        err.print("interrupted")
        return Interrupted.exit_status
    except OSError as error:
        where = error.filename or "standard output"
        problem = paths.problem(error, f"{where}: {error.strerror}")
        show_error(problem)
        discard(sys.stdout)
        return problem.exit_status
    return 0


def _with_near_names(error: click.ClickException) -> click.ClickException:
    """Return the error with better suggestions for a mistyped option or command.

    Click suggests any name that shares some letters, such as ``--store`` for ``--test``.
    """
    match error:
        case click.NoSuchOption(ctx=click.Context() as context, option_name=name):
            known = [
                each
                for option in context.command.get_params(context)
                if isinstance(option, click.Option) and not option.hidden
                for each in (*option.opts, *option.secondary_opts)
                if each.startswith("--")
            ]
            near = [f"--{each}" for each in _near(name, known)] if name.startswith("--") else []
        case click.NoSuchCommand(ctx=click.Context(command=click.Group() as group) as context):
            near = _near(error.command_name, group.list_commands(context))
        case _:
            return error
    meant = " or ".join(map(repr, near))
    return click.UsageError(
        f"{error.message} Did you mean {meant}?" if near else error.message, context
    )


def _near(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names most similar to ``name``, all without leading dashes.

    The dashes would make any two options similar.
    """
    return nearest_names(name.lstrip("-"), [each.lstrip("-") for each in known])


if __name__ == "__main__":
    main()
