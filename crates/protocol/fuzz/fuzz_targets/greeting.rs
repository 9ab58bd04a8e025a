//! The server's greeting, and its requests during a login.
#![no_main]

use libfuzzer_sys::fuzz_target;
use protocol::mysql::handshake::Greeting;
use protocol::mysql::{Address, Login, Tls, reply};

fn login() -> Login {
    Login {
        address: Address::Socket("/nowhere".into()),
        user: "me".to_owned(),
        password: "secret".to_owned(),
        database: None,
        tls: Tls::default(),
        allow_unverified: true,
    }
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(greeting) = Greeting::parse(bytes) {
        assert!(greeting.nonce.len() >= 20);
        assert_eq!(greeting.tls_request(&login()).len(), 32);
    }
    let _ = reply::parse_error(bytes);
    let _ = reply::parse_reply(bytes);
});
