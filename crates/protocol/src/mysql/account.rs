//! An account at a server, and when its password may go there.

use std::os::fd::BorrowedFd;

use super::address::Address;
use super::listener;
use super::tls::Tls;

/// The address and the credentials of a login.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    pub address: Address,
    pub user: String,
    pub password: String,
    pub database: Option<String>,
    pub tls: Tls,
    /// Gives the password to a server that nothing verifies: with the key that it sends, or inside
    /// TLS with whatever certificate it has.
    pub allow_unverified: bool,
}

impl Login {
    /// Return why whoever is at the other end of `socket` must not get the password itself, and
    /// what to do about it; None for the right server, and where the user allows it.
    pub(super) fn reason_to_distrust(&self, socket: BorrowedFd<'_>) -> Option<String> {
        if self.tls.verifies() || self.allow_unverified {
            return None;
        }
        match &self.address {
            Address::Socket(path) => listener::reason_to_distrust(path, socket).map(|reason| {
                format!(
                    "another server may have taken its socket ({reason}): let it listen in a \
                     directory that only its user can write, or allow it (allow_unverified, \
                     --allow-unverified)"
                )
            }),
            Address::Tcp { .. } => Some(
                "nothing shows that it is the right server: verify it by TLS (verify-identity, \
                 with its authority's certificate), connect by its socket, or allow it \
                 (allow_unverified, --allow-unverified)"
                    .to_owned(),
            ),
        }
    }
}

impl std::fmt::Debug for Login {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}@{}", self.user, self.address) // never the password
    }
}
