//! The server to measure, and its login.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::cli::{CliError, user_mistake};
use protocol::mysql::{Address, Login, Tls, TlsMode};

#[derive(Args)]
#[command(next_help_heading = "Server")]
pub struct ServerOptions {
    #[arg(long, visible_alias = "mysql-host", value_name = "HOST", default_value = "127.0.0.1")]
    host: String,
    #[arg(long, visible_alias = "mysql-port", value_name = "PORT", default_value_t = 3306)]
    port: u16,
    /// The server's socket file, instead of host and port.
    #[arg(long, visible_alias = "mysql-socket", value_name = "FILE", conflicts_with_all = ["host", "port"])]
    socket: Option<PathBuf>,
    #[arg(long, visible_alias = "mysql-user", value_name = "NAME", default_value = "sbtest")]
    user: String,
    /// Others can read a command line: the environment is the better place.
    #[arg(
        long,
        visible_alias = "mysql-password",
        value_name = "TEXT",
        env = "MYSQL_PWD",
        hide_env_values = true,
        default_value = ""
    )]
    password: String,
    #[arg(long, visible_alias = "mysql-db", value_name = "NAME", default_value = "sbtest")]
    database: String,
    /// Encrypt: disabled, required, verify-ca or verify-identity [default: verify-identity for a
    /// host other than this one, else disabled]
    #[arg(long, visible_alias = "mysql-ssl", value_enum, value_name = "MODE",
          num_args = 0..=1, default_missing_value = "required",
          require_equals = true, ignore_case = true)]
    tls: Option<TlsChoice>,
    /// PEM file with the authorities that the server's certificate is verified against; verify-ca
    /// needs it [default: those that this host trusts]
    #[arg(long, visible_alias = "mysql-ssl-ca", value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Give the password to a server that nothing verifies: by the key that it sends, or inside TLS
    /// with any certificate.
    #[arg(long)]
    allow_unverified: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum TlsChoice {
    #[value(alias = "off")]
    Disabled,
    #[value(alias = "on")]
    Required,
    #[value(alias = "verify_ca")]
    VerifyCa,
    #[value(alias = "verify_identity")]
    VerifyIdentity,
}

impl ServerOptions {
    pub fn login(&self) -> Result<Login, CliError> {
        let address = match &self.socket {
            Some(path) => Address::Socket(path.clone()),
            None => Address::Tcp { host: self.host.clone(), port: self.port },
        };
        let mode = match self.tls {
            None => TlsMode::default_for(&address),
            Some(TlsChoice::Disabled) => TlsMode::Disabled,
            Some(TlsChoice::Required) => TlsMode::Required,
            Some(TlsChoice::VerifyCa) => TlsMode::VerifyCa,
            Some(TlsChoice::VerifyIdentity) => TlsMode::VerifyIdentity,
        };
        if matches!(mode, TlsMode::Disabled | TlsMode::Required) && self.tls_ca.is_some() {
            return Err(user_mistake(
                "--tls-ca verifies with --tls=verify-ca or --tls=verify-identity only".to_owned(),
            ));
        }
        let tls = Tls::new(mode, self.tls_ca.as_deref())
            .map_err(|error| user_mistake(format!("--tls-ca: {error}")))?;
        Ok(Login {
            address,
            user: self.user.clone(),
            password: self.password.clone(),
            database: Some(self.database.clone()),
            tls,
            allow_unverified: self.allow_unverified,
        })
    }
}
