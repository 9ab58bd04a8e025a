//! TLS: verification of the server's certificate, and errors with hints.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConnection, Resumption, VerifierBuilderError, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, Error as TlsError,
    RootCertStore, SignatureScheme,
};
use serde::Deserialize;
use thiserror::Error;

use super::address::Address;
use crate::ClientError;

/// The TLS mode, by the names of MySQL's own clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TlsMode {
    /// No TLS.
    #[default]
    Disabled,
    /// TLS with any certificate.
    Required,
    /// TLS; the certificate must be signed by the given authority.
    VerifyCa,
    /// As `VerifyCa`, and the certificate must be issued for the connected host (`localhost` for a
    /// socket).
    VerifyIdentity,
}

impl TlsMode {
    /// Return the default mode for an address: servers on other hosts are verified.
    pub fn default_for(address: &Address) -> Self {
        if address.is_this_host() { Self::Disabled } else { Self::VerifyIdentity }
    }
}

/// The TLS settings that all connections share.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    mode: TlsMode,
    config: Option<Arc<ClientConfig>>,
}

/// Settings that cannot be used.
#[derive(Debug, Error)]
pub enum TlsConfigError {
    #[error(
        "verify-ca needs a file of authorities: those that this host trusts certify the servers \
         of anybody, and verify-ca does not look at the name"
    )]
    AnybodysAuthority,
    #[error("this host trusts no certificate authorities: name a file with that of the server")]
    NoAuthority,
    #[error("{} cannot be read as certificates in PEM form: {problem}", path.display())]
    Unreadable { path: PathBuf, problem: String },
}

impl Tls {
    /// Read the certificates of the authority (PEM) for the verifying modes; without a file, use
    /// those that this host trusts.
    pub fn new(mode: TlsMode, authority: Option<&Path>) -> Result<Self, TlsConfigError> {
        let provider = Arc::new(ring::default_provider());
        let config = match mode {
            TlsMode::Disabled => None,
            TlsMode::Required => Some(config(None, false, provider)),
            TlsMode::VerifyCa | TlsMode::VerifyIdentity => {
                let by_web_pki = match authority {
                    Some(path) => web_pki_verifier(path, &provider)?,
                    None if mode == TlsMode::VerifyCa => {
                        return Err(TlsConfigError::AnybodysAuthority);
                    }
                    None => host_verifier(&provider)?,
                };
                Some(config(Some(by_web_pki), mode == TlsMode::VerifyIdentity, provider))
            }
        };
        Ok(Self { mode, config: config.map(Arc::new) })
    }

    pub fn is_on(&self) -> bool {
        self.config.is_some()
    }

    /// Return whether the server must prove its identity.
    pub fn verifies(&self) -> bool {
        matches!(self.mode, TlsMode::VerifyCa | TlsMode::VerifyIdentity)
    }

    /// Return a new TLS session; None if TLS is off.
    pub(super) fn session(
        &self,
        address: &Address,
    ) -> Result<Option<ClientConnection>, ClientError> {
        let Some(config) = &self.config else {
            return Ok(None);
        };
        let host = match address {
            Address::Socket(_) => "localhost",
            Address::Tcp { host, .. } => host,
        };
        let refuse = |error: &dyn std::fmt::Display| {
            ClientError::Tls(format!("no session with {host:?} can begin: {error}"))
        };
        let name = ServerName::try_from(host.to_owned()).map_err(|error| refuse(&error))?;
        ClientConnection::new(Arc::clone(config), name).map(Some).map_err(|error| refuse(&error))
    }
}

/// Return a failed handshake as an error with a hint.
pub(super) fn explain(error: &TlsError) -> ClientError {
    let hint = match error {
        TlsError::PeerIncompatible(_)
        | TlsError::AlertReceived(
            AlertDescription::ProtocolVersion | AlertDescription::HandshakeFailure,
        )
        | TlsError::InvalidMessage(_) => {
            "the server does not support TLS 1.2 or newer with a key exchange that this client \
             knows (ECDHE): turn TLS off for it"
        }
        TlsError::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => {
            "the certificate is made out to another name: connect by that name, or use mode \
             verify-ca"
        }
        TlsError::InvalidCertificate(_) => {
            "the certificate cannot be trusted: name the file of the authority that signed it, or \
             use mode required"
        }
        _ => return ClientError::Tls(error.to_string()),
    };
    ClientError::Tls(format!("{hint} ({error})"))
}

/// Return a verifier with the authorities that this host trusts.
fn host_verifier(
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, TlsConfigError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    verifier(roots, provider).map_err(|_| TlsConfigError::NoAuthority)
}

fn web_pki_verifier(
    path: &Path,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, TlsConfigError> {
    let unreadable = |error: &dyn std::fmt::Display| TlsConfigError::Unreadable {
        path: path.to_owned(),
        problem: error.to_string(),
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| unreadable(&error))? {
        let certificate = certificate.map_err(|error| unreadable(&error))?;
        roots.add(certificate).map_err(|error| unreadable(&error))?;
    }
    verifier(roots, provider).map_err(|error| unreadable(&error))
}

fn verifier(
    roots: RootCertStore,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, VerifierBuilderError> {
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider)).build()
}

fn config(
    by_web_pki: Option<Arc<WebPkiServerVerifier>>,
    checks_name: bool,
    provider: Arc<CryptoProvider>,
) -> ClientConfig {
    let verifier = Verifier {
        by_web_pki,
        checks_name,
        algorithms: provider.signature_verification_algorithms,
    };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has cipher suites for TLS 1.2 and 1.3")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    // Without resumption, every connection does the same work.
    config.resumption = Resumption::disabled();
    config
}

/// Verifies a certificate as the mode requires. In every mode, the server must prove that it has
/// the certificate's key.
#[derive(Debug)]
struct Verifier {
    by_web_pki: Option<Arc<WebPkiServerVerifier>>,
    checks_name: bool,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        let Some(by_web_pki) = &self.by_web_pki else {
            return Ok(ServerCertVerified::assertion());
        };
        // The name is verified last, so all else is valid if the name is wrong.
        match by_web_pki
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
        {
            Err(TlsError::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.checks_name => Ok(ServerCertVerified::assertion()),
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        rustls::crypto::verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn two_modes_verify_the_server() {
        let made = |mode| match Tls::new(mode, None) {
            Ok(tls) => (tls.is_on(), tls.verifies()),
            // The host may have no trusted authorities.
            Err(TlsConfigError::NoAuthority) => (true, true),
            Err(mistake) => panic!("{mistake}"),
        };
        assert_eq!(made(TlsMode::Disabled), (false, false));
        assert_eq!(made(TlsMode::Required), (true, false));
        assert_eq!(made(TlsMode::VerifyIdentity), (true, true));
    }

    #[test]
    fn authorities_that_certify_anybody_do_not_verify_without_the_name() {
        let mistake = Tls::new(TlsMode::VerifyCa, None).unwrap_err().to_string();
        assert!(mistake.contains("verify-ca needs a file"), "{mistake}");
    }

    #[test]
    fn servers_on_other_hosts_are_verified_by_default() {
        let default = |host: &str| {
            let host = host.to_owned();
            TlsMode::default_for(&Address::Tcp { host, port: 1 })
        };
        for here in ["localhost", "127.0.0.1", "127.1.2.3", "::1"] {
            assert_eq!(default(here), TlsMode::Disabled, "{here}");
        }
        for elsewhere in ["db.test", "192.0.2.1", "localhost.db.test", "::2", "0.0.0.0"] {
            assert_eq!(default(elsewhere), TlsMode::VerifyIdentity, "{elsewhere}");
        }
        let socket = Address::Socket("/run/s".into());
        assert_eq!(TlsMode::default_for(&socket), TlsMode::Disabled);
    }

    #[test]
    fn a_file_that_holds_no_certificate_is_named() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let pem = b"-----BEGIN CERTIFICATE-----\nbm9uc2Vuc2U=\n-----END CERTIFICATE-----\n";
        for content in [&b""[..], b"no certificate", pem] {
            file.as_file_mut().set_len(0).unwrap();
            file.write_all(content).unwrap();
            let mistake = Tls::new(TlsMode::VerifyCa, Some(file.path())).unwrap_err();
            let name = file.path().to_str().unwrap();
            assert!(mistake.to_string().contains(name), "{mistake}");
        }
        let absent = Path::new("/absent/ca.pem");
        let mistake = Tls::new(TlsMode::VerifyIdentity, Some(absent)).unwrap_err();
        assert!(mistake.to_string().contains("/absent/ca.pem"), "{mistake}");
    }

    #[test]
    fn a_name_that_no_certificate_can_have_is_refused() {
        let tls = Tls::new(TlsMode::Required, None).unwrap();
        let host = "no name".to_owned();
        let error = tls.session(&Address::Tcp { host, port: 1 }).unwrap_err();
        assert!(error.to_string().contains("\"no name\""), "{error}");
        let socket = Address::Socket("/tmp/x".into());
        assert!(tls.session(&socket).unwrap().is_some());
    }
}
