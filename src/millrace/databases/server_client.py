"""Define the client of a server with the facts of its family."""

from millrace.databases.base import Family
from millrace.databases.client import Address, DatabaseClient
from millrace.model.servers import Server
from millrace.shown_text import shown_line


class ServerClient(DatabaseClient):
    """A client of a server of a known family, whoever runs the server."""

    def __init__(self, server: Server, family: Family, address: Address) -> None:
        super().__init__(server, family, address)
        self.family = family

    def version(self) -> str:
        """Return the version that the server reports, on one line."""
        return shown_line(self.family.administration.version(self))

    def settings(self) -> dict[str, str]:
        """Return every setting in force with its value, as the server shows them."""
        return self.family.administration.settings(self)
