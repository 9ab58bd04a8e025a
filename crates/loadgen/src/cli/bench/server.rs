//! Which server to measure, and how to log in.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::cli::{Problem, user_mistake};
use crate::mysql::{Address, Login, Tls, TlsMode};

#[derive(Args)]
#[command(next_help_heading = "Server")]
pub struct ServerOptions {
    #[arg(
        long,
        visible_alias = "mysql-host",
        value_name = "HOST",
        default_value = "127.0.0.1"
    )]
    host: String,
    #[arg(
        long,
        visible_alias = "mysql-port",
        value_name = "PORT",
        default_value_t = 3306
    )]
    port: u16,
    /// The server's socket file, instead of host and port.
    #[arg(long, visible_alias = "mysql-socket", value_name = "FILE", conflicts_with_all = ["host", "port"])]
    socket: Option<PathBuf>,
    #[arg(
        long,
        visible_alias = "mysql-user",
        value_name = "NAME",
        default_value = "sbtest"
    )]
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
    #[arg(
        long,
        visible_alias = "mysql-db",
        value_name = "NAME",
        default_value = "sbtest"
    )]
    database: String,
    /// Encrypt: off, require, verify-ca or verify-full.
    #[arg(long, visible_alias = "mysql-ssl", value_enum, value_name = "MODE",
          default_value_t = TlsChoice::Off, num_args = 0..=1, default_missing_value = "require",
          require_equals = true, ignore_case = true)]
    tls: TlsChoice,
    /// PEM file with the authorities that the server's certificate is verified against.
    #[arg(long, visible_alias = "mysql-ssl-ca", value_name = "FILE")]
    tls_ca: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum TlsChoice {
    #[value(aliases = ["disabled"])]
    Off,
    #[value(aliases = ["on", "required"])]
    Require,
    #[value(alias = "verify_ca")]
    VerifyCa,
    #[value(aliases = ["verify_full", "verify_identity"])]
    VerifyFull,
}

impl ServerOptions {
    pub fn login(&self) -> Result<Login, Problem> {
        let mode = match self.tls {
            TlsChoice::Off => TlsMode::Off,
            TlsChoice::Require => TlsMode::Require,
            TlsChoice::VerifyCa => TlsMode::VerifyCa,
            TlsChoice::VerifyFull => TlsMode::VerifyFull,
        };
        if matches!(mode, TlsMode::Off | TlsMode::Require) && self.tls_ca.is_some() {
            return Err(user_mistake(
                "--tls-ca verifies with --tls=verify-ca or --tls=verify-full only".to_owned(),
            ));
        }
        let tls = Tls::new(mode, self.tls_ca.as_deref())
            .map_err(|error| user_mistake(format!("--tls-ca: {error}")))?;
        let address = match &self.socket {
            Some(path) => Address::Socket(path.clone()),
            None => Address::Tcp {
                host: self.host.clone(),
                port: self.port,
            },
        };
        Ok(Login {
            address,
            user: self.user.clone(),
            password: self.password.clone(),
            database: Some(self.database.clone()),
            tls,
        })
    }
}
