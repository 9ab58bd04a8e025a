"""List the servers that tests run on: `python -m tests.servers` prints them, one per line.

The catalogue has more. Tests that ask for another one fail, so that a test run can download what it
needs in advance, and nothing else.
"""

from millrace.model.servers import FittedOptions, Option

NAMES = (
    "mysql-5.5.9",
    "mysql-5.5.34",
    "mysql-5.6.14",
    "mysql-5.6.24",
    "mysql-5.7.19",
    "mysql-5.7.22",
    "mysql-8.0.12",
    "mysql-8.0.15",
    "mysql-8.0.33",
    "mysql-9.7.4",
    "mariadb-10.1.8",
    "mariadb-10.1.13",
    "mariadb-10.1.23",
    "mariadb-10.2.11",
    "mariadb-10.5.29",
    "mariadb-10.11.5",
    "mariadb-10.11.19",
    "mariadb-10.11.19-plugins",
    "mariadb-11.4.5",
    "mariadb-11.8.9",
)


def quick_start(name: str) -> dict[str, str]:
    """Return options that let a server start sooner, for tests of something else.

    With its own value MySQL 5.6 makes room for 400 MB of statistics: half of the work of a start.
    """
    return {"table_definition_cache": "400"} if name.startswith("mysql-5.6.") else {}


def quick_options(name: str) -> FittedOptions:
    """Return the options of trials that test none."""
    options = quick_start(name).items()
    return FittedOptions("test", tuple(Option(*each, False, "test") for each in options))


if __name__ == "__main__":
    print(*NAMES, sep="\n")
