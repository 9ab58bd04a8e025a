//! Proving a password without sending it, or sending it only where nobody else can read it.

use rsa::pkcs8::DecodePublicKey;
use rsa::rand_core::OsRng;
use rsa::{Oaep, RsaPublicKey};
use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::error::ClientError;

/// The ways to log in that this client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plugin {
    Native,
    CachingSha2,
}

impl Plugin {
    pub fn by_name(name: &str) -> Option<Self> {
        [Self::Native, Self::CachingSha2]
            .into_iter()
            .find(|plugin| plugin.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "mysql_native_password",
            Self::CachingSha2 => "caching_sha2_password",
        }
    }

    /// The answer to the server's nonce; nothing for an empty password.
    pub fn proof(self, password: &[u8], nonce: &[u8]) -> Vec<u8> {
        if password.is_empty() {
            return Vec::new();
        }
        match self {
            Self::Native => {
                // SHA1(password) XOR SHA1(nonce, SHA1(SHA1(password)))
                let once = Sha1::digest(password);
                let twice = Sha1::digest(once);
                let mask = Sha1::new()
                    .chain_update(nonce)
                    .chain_update(twice)
                    .finalize();
                xor(&once, &mask)
            }
            Self::CachingSha2 => {
                // SHA256(password) XOR SHA256(SHA256(SHA256(password)), nonce)
                let once = Sha256::digest(password);
                let twice = Sha256::digest(once);
                let mask = Sha256::new()
                    .chain_update(twice)
                    .chain_update(nonce)
                    .finalize();
                xor(&once, &mask)
            }
        }
    }
}

/// The password, hidden with the nonce and encrypted with the server's own public key (PEM):
/// what `caching_sha2_password` wants over a connection that others may read.
pub fn encrypted_password(
    password: &[u8],
    nonce: &[u8],
    public_key: &[u8],
) -> Result<Vec<u8>, ClientError> {
    let refuse = |what: String| ClientError::Authentication(what);
    let pem = str::from_utf8(public_key)
        .map_err(|_| refuse("the server's public key is not text".to_owned()))?;
    let key = RsaPublicKey::from_public_key_pem(pem)
        .map_err(|error| refuse(format!("the server's public key cannot be read: {error}")))?;
    let mask: Vec<u8> = nonce
        .iter()
        .copied()
        .cycle()
        .take(password.len() + 1)
        .collect();
    key.encrypt(
        &mut OsRng,
        Oaep::new::<Sha1>(),
        &xor(&with_zero(password), &mask),
    )
    .map_err(|error| refuse(format!("the password cannot be encrypted: {error}")))
}

/// The password as it goes over a connection that only this host can read.
pub fn with_zero(password: &[u8]) -> Vec<u8> {
    [password, &[0]].concat()
}

fn xor(left: &[u8], right: &[u8]) -> Vec<u8> {
    left.iter().zip(right).map(|(a, b)| a ^ b).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rsa::RsaPrivateKey;
    use rsa::pkcs8::{EncodePublicKey, LineEnding};

    const NONCE: &[u8] = b"abcdefghijklmnopqrst";

    fn hex(digits: &str) -> Vec<u8> {
        (0..digits.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
            .collect()
    }

    #[test]
    fn an_empty_password_needs_no_proof() {
        assert!(Plugin::Native.proof(b"", NONCE).is_empty());
        assert!(Plugin::CachingSha2.proof(b"", NONCE).is_empty());
    }

    #[test]
    fn proofs_are_those_another_client_sends() {
        // Made with PyMySQL 1.2.4 (pymysql._auth) for the same nonce.
        assert_eq!(
            Plugin::Native.proof(b"secret", NONCE),
            hex("8817c50fa779daef010ee7577825b0847df9842e")
        );
        assert_eq!(
            Plugin::CachingSha2.proof(b"secret", NONCE),
            hex("c76e2898612a4cf042c77fa8c4702c4c64c0c2c557c53c4d75595aaa6abae809")
        );
    }

    #[test]
    fn the_server_can_decrypt_the_password() {
        let private = RsaPrivateKey::new(&mut OsRng, 1024).unwrap();
        let pem = private
            .to_public_key()
            .to_public_key_pem(LineEnding::LF)
            .unwrap();
        let sent = encrypted_password(b"a rather long password", NONCE, pem.as_bytes()).unwrap();
        let hidden = private.decrypt(Oaep::new::<Sha1>(), &sent).unwrap();
        let mask: Vec<u8> = NONCE.iter().copied().cycle().take(hidden.len()).collect();
        assert_eq!(xor(&hidden, &mask), b"a rather long password\0");
    }

    #[test]
    fn a_broken_key_is_an_error() {
        let error = encrypted_password(b"x", NONCE, b"-----BEGIN NONSENSE-----").unwrap_err();
        assert!(
            error.to_string().contains("public key cannot be read"),
            "{error}"
        );
    }

    #[test]
    fn plugins_by_name() {
        assert_eq!(
            Plugin::by_name("caching_sha2_password"),
            Some(Plugin::CachingSha2)
        );
        assert_eq!(Plugin::by_name("auth_gssapi_client"), None);
    }
}
