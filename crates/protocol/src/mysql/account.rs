//! A login at a server, and the rules for sending its password.
//!
//! The password itself is sent over a Unix socket only if no other user can have put a listener in
//! the server's place: the listener must belong to root, to the user of this process, or to a user
//! that these two allow to own the socket's directory. `millrace/host/listener.py` has the same
//! rules and messages; a test compares both.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;

use super::address::Address;
use super::tls::Tls;

const ROOT: u32 = 0;
/// The maximum number of symbolic links in one path, as in the kernel.
const MOST_LINKS: usize = 40;
const WRITABLE_BY_OTHERS: u32 = 0o022;
const STICKY: u32 = 0o1000;

#[derive(Clone)]
pub struct Login {
    pub address: Address,
    pub user: String,
    pub password: String,
    pub database: Option<String>,
    pub tls: Tls,
    /// Allow sending the password to an unverified server: encrypted with the server's key, or over
    /// TLS with any certificate.
    pub allow_unverified: bool,
}

impl Login {
    /// Return why the password itself must not be sent to the other end, with a hint; None if it
    /// may be sent.
    pub(super) fn reason_to_distrust(&self, socket: BorrowedFd<'_>) -> Option<String> {
        if self.tls.verifies() || self.allow_unverified {
            return None;
        }
        match &self.address {
            Address::Socket(path) => {
                let reason = judge(path, socket).unwrap_or_else(|error| {
                    Some(format!("{} cannot be looked at: {}", path.display(), error.kind()))
                })?;
                Some(format!(
                    "another server may have taken its socket ({reason}): let it listen in a \
                     directory that only its user can write, or allow it (allow_unverified, \
                     --allow-unverified)"
                ))
            }
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

/// Return why another server may be listening at `socket`, which is connected to `path`; None if
/// none can.
fn judge(path: &Path, socket: BorrowedFd<'_>) -> io::Result<Option<String>> {
    let listener = socket_peercred(socket)?.uid.as_raw();
    let mut trusted = HashSet::from([ROOT, geteuid().as_raw()]);
    let mut place = PathBuf::from("/");
    let mut left = parts(&std::path::absolute(path)?);
    let mut links = 0;
    while let Some(name) = left.pop() {
        if name == ".." {
            place.pop();
            continue;
        }
        let next = place.join(&name);
        let status = fs::symlink_metadata(&next)?;
        let mode = fs::symlink_metadata(&place)?.mode();
        if mode & WRITABLE_BY_OTHERS == 0 {
            // A trusted user let the owner of this entry in.
            if !status.is_symlink() {
                trusted.insert(status.uid());
            }
        } else if mode & STICKY == 0 || !trusted.contains(&status.uid()) {
            return Ok(Some(format!(
                "other users can write {}, and {} belongs to the user {}",
                place.display(),
                next.display(),
                status.uid()
            )));
        }
        if status.is_symlink() {
            links += 1;
            if links > MOST_LINKS {
                return Ok(Some(format!("{} leads through too many links", path.display())));
            }
            let target = fs::read_link(&next)?;
            if target.is_absolute() {
                place = PathBuf::from("/");
            }
            left.extend(parts(&target));
        } else {
            place = next;
        }
    }
    Ok((!trusted.contains(&listener)).then(|| {
        format!("the user {listener} listens there, who owns neither the socket nor a directory above it")
    }))
}

/// Return the components of a path, the last one first.
fn parts(path: &Path) -> Vec<OsString> {
    path.components()
        .rev()
        .filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir))
        .map(|part| part.as_os_str().to_owned())
        .collect()
}
