//! Authentication methods: proofs of a password, and its encryption for servers that need the
//! password itself.

use curve25519_dalek::edwards::EdwardsPoint;
use curve25519_dalek::scalar::{Scalar, clamp_integer};
use rsa::pkcs8::DecodePublicKey;
use rsa::rand_core::OsRng;
use rsa::{Oaep, RsaPublicKey};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

use crate::ClientError;

/// The authentication plugins that this client supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plugin {
    Native,
    CachingSha2,
    Ed25519,
}

impl Plugin {
    pub const ALL: [Self; 3] = [Self::Native, Self::CachingSha2, Self::Ed25519];

    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|plugin| plugin.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "mysql_native_password",
            Self::CachingSha2 => "caching_sha2_password",
            Self::Ed25519 => "client_ed25519",
        }
    }

    /// Return the length of this plugin's nonce. MySQL and MariaDB append a zero to the nonces of
    /// the two older plugins. An Ed25519 nonce may contain zeros, and nothing follows it.
    pub fn nonce_bytes(self) -> usize {
        match self {
            Self::Native | Self::CachingSha2 => 20,
            Self::Ed25519 => 32,
        }
    }

    /// Return the response to the server's nonce; empty for an empty password, except with Ed25519.
    pub fn proof(self, password: &[u8], nonce: &[u8]) -> Vec<u8> {
        match self {
            Self::Ed25519 => signature(password, nonce).to_vec(),
            _ if password.is_empty() => Vec::new(),
            Self::Native => {
                // SHA1(password) XOR SHA1(nonce, SHA1(SHA1(password)))
                let once = Sha1::digest(password);
                let twice = Sha1::digest(once);
                let mask = Sha1::new().chain_update(nonce).chain_update(twice).finalize();
                xor(&once, &mask)
            }
            Self::CachingSha2 => {
                // SHA256(password) XOR SHA256(SHA256(SHA256(password)), nonce)
                let once = Sha256::digest(password);
                let twice = Sha256::digest(once);
                let mask = Sha256::new().chain_update(twice).chain_update(nonce).finalize();
                xor(&once, &mask)
            }
        }
    }
}

/// Return the Ed25519 signature of the nonce. SHA-512 of the password is the expanded secret key
/// (RFC 8032, 5.1.6, but without a seed: MariaDB uses the password itself, of any length).
fn signature(password: &[u8], nonce: &[u8]) -> [u8; 64] {
    let expanded: [u8; 64] = Sha512::digest(password).into();
    let (lower, prefix) = expanded.split_at(32);
    let lower = lower.try_into().expect("half of 64 bytes are 32");
    let secret = Scalar::from_bytes_mod_order(clamp_integer(lower));
    let public = EdwardsPoint::mul_base(&secret).compress();
    let hash = |parts: [&[u8]; 3]| {
        let digest = parts.iter().fold(Sha512::new(), Sha512::chain_update);
        Scalar::from_bytes_mod_order_wide(&digest.finalize().into())
    };
    let once = hash([prefix, nonce, &[]]);
    let point = EdwardsPoint::mul_base(&once).compress();
    let challenge = hash([point.as_bytes(), public.as_bytes(), nonce]);
    let mut signature = [0; 64];
    signature[..32].copy_from_slice(point.as_bytes());
    signature[32..].copy_from_slice((challenge * secret + once).as_bytes());
    signature
}

/// Return the password, combined with the nonce (XOR) and encrypted with the server's public key (PEM).
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
    let mask: Vec<u8> = nonce.iter().copied().cycle().take(password.len() + 1).collect();
    key.encrypt(&mut OsRng, Oaep::new::<Sha1>(), &xor(&with_zero(password), &mask))
        .map_err(|error| refuse(format!("the password cannot be encrypted: {error}")))
}

/// Return the password with a zero byte, as sent over a connection that nobody else can read.
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
        let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        (0..digits.len()).step_by(2).map(byte).collect()
    }

    #[test]
    fn proofs_are_those_another_client_sends() {
        // Computed with PyMySQL 1.2.4 (pymysql._auth) for the same nonce.
        for (plugin, digits) in [
            (Plugin::Native, "8817c50fa779daef010ee7577825b0847df9842e"),
            (
                Plugin::CachingSha2,
                "c76e2898612a4cf042c77fa8c4702c4c64c0c2c557c53c4d75595aaa6abae809",
            ),
        ] {
            assert_eq!(plugin.proof(b"secret", NONCE), hex(digits));
            assert!(plugin.proof(b"", NONCE).is_empty());
        }
        assert_eq!(Plugin::Ed25519.proof(b"", &[7; 32]).len(), 64);
    }

    struct Login<'a>(&'a [u8]);

    impl mysql_common::auth::plugins::Context for Login<'_> {
        fn pass(&self) -> &[u8] {
            self.0
        }
        fn is_ipc_transport(&self) -> bool {
            false
        }
        fn is_tls_transport(&self) -> bool {
            false
        }
        fn scramble(&self) -> &[u8] {
            &[]
        }
        fn server_key_pem(&self) -> Option<&[u8]> {
            None
        }
    }

    proptest::proptest! {
        #[test]
        fn signatures_are_those_of_a_second_library(password: Vec<u8>, nonce: [u8; 32]) {
            use mysql_common::auth::plugins::ChallengeResponsePlugin;
            use mysql_common::auth::plugins::client_ed25519::ClientEd25519;
            let theirs = ClientEd25519::default().run(Login(&password), &nonce).unwrap();
            let ours = Plugin::Ed25519.proof(&password, &nonce);
            proptest::prop_assert_eq!(theirs.data(), Some(ours.as_slice()));
        }
    }

    #[test]
    fn the_server_can_decrypt_the_password() {
        let private = RsaPrivateKey::new(&mut OsRng, 1024).unwrap();
        let pem = private.to_public_key().to_public_key_pem(LineEnding::LF).unwrap();
        let sent = encrypted_password(b"a rather long password", NONCE, pem.as_bytes()).unwrap();
        let hidden = private.decrypt(Oaep::new::<Sha1>(), &sent).unwrap();
        let mask: Vec<u8> = NONCE.iter().copied().cycle().take(hidden.len()).collect();
        assert_eq!(xor(&hidden, &mask), b"a rather long password\0");
    }

    #[test]
    fn a_broken_key_is_an_error() {
        let error = encrypted_password(b"x", NONCE, b"-----BEGIN NONSENSE-----").unwrap_err();
        assert!(error.to_string().contains("public key cannot be read"), "{error}");
    }

    #[test]
    fn plugins_by_name() {
        assert_eq!(Plugin::by_name("caching_sha2_password"), Some(Plugin::CachingSha2));
        assert_eq!(Plugin::by_name("auth_gssapi_client"), None);
    }
}
