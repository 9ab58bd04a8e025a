//! The answer to COM_STMT_PREPARE: its first message, and the columns after it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use protocol::mysql::Prepared;
use protocol::mysql::packet::Decoder;
use protocol::mysql::values::Column;

fuzz_target!(|bytes: &[u8]| {
    let mut decoder = Decoder::default();
    decoder.expect(1);
    decoder.feed(bytes);
    while let Ok(Some(message)) = decoder.next_message() {
        let _ = Prepared::parse(&message);
        let _ = Column::parse(&message);
    }
});
