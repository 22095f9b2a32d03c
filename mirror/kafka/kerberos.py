"""Kerberos as Java's login module has it: principal, key table and ticket cache come from the JAAS options alone.

The library that does the work, MIT Kerberos through the package ``gssapi``, would take them from variables of the
environment, so that two clusters of one process could not differ.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.gssapi import SaslMechanismGSSAPI

from mirror.kafka.credentials import NoCredentials
from mirror.kafka.java_options import KRB5_FILE, system_property

_TRUE = "true"


@dataclass(frozen=True, slots=True)
class KerberosLogin:
    """As whom to log in, and with what.

    Attributes
    ----------
    service
        the broker's service name: tickets are for ``service/host``.
    principal
        the client's; None: the first of the key table or ticket cache.
    key_table
        file of keys, with which tickets are got and renewed without a password; None: a ticket must be there.
    ticket_cache
        where tickets are that somebody got by ``kinit``; None: the user's usual one.
    """

    service: str
    principal: str | None = None
    key_table: str | None = None
    ticket_cache: str | None = None

    @classmethod
    def of(cls, service: str, options: Mapping[str, str]) -> KerberosLogin:
        """Read the options of ``com.sun.security.auth.module.Krb5LoginModule``."""
        uses_keys = options.get("useKeyTab", "").lower() == _TRUE or "useTicketCache" not in options
        key_table = options.get("keyTab") if uses_keys else None
        return cls(service, options.get("principal"), key_table, options.get("ticketCache"))

    def credentials(self) -> Any:
        """Return credentials of the package ``gssapi``, of which the library renews the tickets."""
        gssapi = _library()
        name = gssapi.Name(self.principal, gssapi.NameType.kerberos_principal) if self.principal else None
        store = None
        if self.key_table is not None:
            # The tickets of each login are its own, and nobody else's on this machine.
            store = {"client_keytab": self.key_table, "ccache": f"MEMORY:{self.key_table}:{self.principal or ''}"}
        elif self.ticket_cache is not None:
            store = {"ccache": f"FILE:{self.ticket_cache}"}
        return gssapi.Credentials(usage="initiate", name=name, store=store)


def _library() -> Any:
    if (file := system_property(KRB5_FILE)) is not None:
        # The library looks there and nowhere else, when it is first asked something.
        os.environ.setdefault("KRB5_CONFIG", file)
    # An extra, with types of its own only where it is installed: who does not use Kerberos need not have it.
    return importlib.import_module("gssapi")


class NoTicket(NoCredentials):
    """There is no ticket for a broker: no key for the principal, no such file, no KDC that answers; it says which."""

    def __init__(self, login: KerberosLogin, broker: str, reason: str) -> None:
        asker = login.principal or "the principal of the ticket cache"
        where = f" with {login.key_table}" if login.key_table else ""
        if login.key_table and not os.access(login.key_table, os.R_OK):
            # The library tells only that in the end there was nothing.
            reason = "the key table cannot be read"
        super().__init__(f"no ticket for {broker} for {asker}{where}: {reason}")


class Gssapi(SaslMechanismGSSAPI):  # type: ignore[misc]
    """kafka-python's mechanism with credentials of its own; the login is where the library looks for a name."""

    def __init__(self, **config: Any) -> None:
        gssapi = _library()
        login: KerberosLogin = config["sasl_kerberos_name"]
        self._is_done = self._is_authenticated = False
        self.auth_id = f"{login.service}@{config['host']}"
        try:
            broker = gssapi.Name(self.auth_id, name_type=gssapi.NameType.hostbased_service)
            self.gssapi_name = broker.canonicalize(gssapi.MechType.kerberos)
            credentials = login.credentials()
            self._client_ctx = gssapi.SecurityContext(name=self.gssapi_name, usage="initiate", creds=credentials)
            self._next_token = self._client_ctx.step(None)
        except gssapi.exceptions.GSSError as error:
            raise NoTicket(login, self.auth_id, error.gen_message()) from error


register_sasl_mechanism("GSSAPI", Gssapi, overwrite=True)
