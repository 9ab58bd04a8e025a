//! The data set `nodes`: points on a map of Spain, as a tab-separated file.
//!
//! Columns: id, lat, lon, version, timestamp, changeset, uid, user; one row a line. Real mappers
//! work in sessions: one user creates a run of neighbouring nodes at one time and place, and others
//! change some of them later. To imitate this, rows come in *blocks* of 32, and every block is cut
//! at a random row. The rows before the cut belong to the session with the block's number, the rows
//! after it to the next session; this gives runs of 1 to 63 rows. A row's bytes depend only on the
//! seed, the number of rows of the whole set, and the row's own number.
//!
//! For speed, the text that all rows of a session share, from the timestamp to the end of the line,
//! is made once, and digits are made eight at a time.

#![allow(clippy::cast_possible_truncation)] // the values are scaled below the type's limit before

use super::counter::{Stream, high_product, scale};
use super::digits::{eight, put_number};
use super::history::{self, Calendar, Seconds};
use super::rows::Rows;
use super::users::{self, User};

/// Identifies the exact content: raise it whenever any byte of the set changes.
pub const VERSION: &str = "nodes-1";

/// The maximum number of rows; with more, ids would exceed a signed 64-bit number.
pub const MAX_ROWS: u64 = 1 << 56;

const BLOCK: u64 = 32;

/// The id before the first row's.
const FIRST_ID: u64 = 100_000;

/// The highest id, approximately, of a set of the published size or smaller.
const USUAL_TOP_ID: u64 = 4_487_000_000;

/// The average distance between ids in a set of the published size or larger.
const MIN_STRIDE: u64 = 96;

/// Room for the longest row, and for the padding after it.
const ROW_ROOM: usize = 256;

/// Places where sessions happen, in 1e-7 degrees: latitude, longitude.
const PLACES: [(i32, i32); 32] = [
    (404_168_000, -37_038_000),  // Madrid
    (413_851_000, 21_734_000),   // Barcelona
    (394_699_000, -3_763_000),   // València
    (373_891_000, -59_845_000),  // Sevilla
    (416_488_000, -8_891_000),   // Zaragoza
    (367_213_000, -44_214_000),  // Málaga
    (379_922_000, -11_307_000),  // Murcia
    (395_696_000, 26_502_000),   // Palma
    (281_235_000, -154_363_000), // Las Palmas
    (432_630_000, -29_350_000),  // Bilbao
    (383_452_000, -4_810_000),   // Alacant
    (378_882_000, -47_794_000),  // Córdoba
    (416_523_000, -47_245_000),  // Valladolid
    (422_406_000, -87_207_000),  // Vigo
    (435_322_000, -56_611_000),  // Gijón
    (428_467_000, -26_716_000),  // Vitoria-Gasteiz
    (433_623_000, -84_115_000),  // A Coruña
    (371_773_000, -35_986_000),  // Granada
    (433_619_000, -58_494_000),  // Oviedo
    (284_636_000, -162_518_000), // Santa Cruz de Tenerife
    (428_125_000, -16_458_000),  // Pamplona
    (368_340_000, -24_637_000),  // Almería
    (433_183_000, -19_812_000),  // Donostia
    (423_439_000, -36_969_000),  // Burgos
    (434_623_000, -38_099_000),  // Santander
    (399_864_000, -513_000),     // Castelló
    (409_701_000, -56_635_000),  // Salamanca
    (424_627_000, -24_450_000),  // Logroño
    (388_794_000, -69_706_000),  // Badajoz
    (372_614_000, -69_447_000),  // Huelva
    (419_794_000, 28_214_000),   // Girona
    (406_566_000, -46_812_000),  // Ávila
];

/// The version of a row by 6 random bits; 0 means more than six.
const VERSIONS: [u8; 64] = {
    let mut versions = [1; 64];
    let mut at = 44;
    while at < 64 {
        versions[at] = match at {
            44..56 => 2,
            56..60 => 3,
            60 => 4,
            61 => 5,
            62 => 6,
            _ => 0,
        };
        at += 1;
    }
    versions
};

/// The data set of one size and seed; clones are cheap.
pub struct Nodes {
    rows: u64,
    block_span: u64,
    /// 2^96 divided by the number of blocks, so that progress needs only one multiplication.
    progress_step: u128,
    calendar: Calendar,
    users: Vec<User>,
    row_draws: Stream,
    block_draws: Stream,
    session_draws: Stream,
    edit_draws: Stream,
}

/// The place of a session, and the text at the end of each of its rows.
struct Session {
    lat: i32,
    lon: i32,
    time: Seconds,
    tail: Tail,
}

/// The text from the tab before the timestamp to the newline.
struct Tail {
    text: [u8; Tail::CAPACITY],
    length: usize,
}

impl Tail {
    const CAPACITY: usize = 96;
    /// Nearly every tail is shorter than this, so one copy of fixed size suffices.
    const USUAL: usize = 64;
}

/// The parts that all rows of one block share.
struct Block {
    first_id: u64,
    id_gap: u64,
    cut: u64,
    sessions: [Session; 2],
    edits: [Tail; 4],
}

impl Nodes {
    /// Return the set of `rows` rows (at most [`MAX_ROWS`]) of a seed.
    pub fn new(rows: u64, seed: u64) -> Self {
        assert!(rows <= MAX_ROWS, "the command line and the spec refuse more rows");
        let blocks = rows.div_ceil(BLOCK).max(1);
        let stride = (USUAL_TOP_ID / rows.max(1)).max(MIN_STRIDE);
        Self {
            rows,
            block_span: stride * BLOCK,
            progress_step: (1 << 96) / u128::from(blocks),
            calendar: Calendar::new(),
            users: users::community(),
            row_draws: Stream::named(seed, "nodes/rows"),
            block_draws: Stream::named(seed, "nodes/blocks"),
            session_draws: Stream::named(seed, "nodes/sessions"),
            edit_draws: Stream::named(seed, "nodes/edits"),
        }
    }

    #[inline]
    fn write_row(&self, block: &Block, row: u64, room: &mut [u8; ROW_ROOM]) -> usize {
        let random = self.row_draws.at(row);
        let in_block = row % BLOCK;
        let session = &block.sessions[usize::from(in_block >= block.cut)];
        let id = block.first_id + in_block * block.id_gap + scale(random >> 53, 11, block.id_gap);
        let lat = session.lat + offset(random);
        let lon = session.lon + offset(random >> 18);

        let mut at = put_number(room, 0, id);
        at = put_degrees(room, at, lat);
        at = put_degrees(room, at, lon);
        room[at] = b'\t';
        let version = VERSIONS[(random >> 36 & 63) as usize];
        if version == 1 {
            room[at + 1] = b'1';
            return put_tail(room, at + 2, &session.tail);
        }
        let edit = &block.edits[(random >> 42 & 3) as usize];
        if version != 0 {
            room[at + 1] = b'0' + version;
            return put_tail(room, at + 2, edit);
        }
        at = put_number(room, at + 1, 7 + (random >> 44 & 31));
        put_tail(room, at, edit)
    }

    fn block(&self, number: u64) -> Block {
        let random = self.block_draws.at(number);
        let id_gap = match random & 7 {
            0..=3 => 1,
            4 | 5 => 1 + (random >> 3 & 3),
            _ => 1 + scale(random >> 3, 16, self.block_span / BLOCK / 2),
        };
        let free = self.block_span - BLOCK * id_gap;
        let sessions = [self.session(number), self.session(number + 1)];
        let made = sessions[0].time.max(sessions[1].time);
        Block {
            first_id: FIRST_ID + number * self.block_span + high_product(random, free),
            id_gap,
            cut: random >> 19 & (BLOCK - 1),
            sessions,
            edits: std::array::from_fn(|edit| self.edit(number * 4 + edit as u64, made)),
        }
    }

    fn session(&self, number: u64) -> Session {
        let random = self.session_draws.at(2 * number);
        let place = self.session_draws.at(2 * number + 1);
        let (lat, lon) = PLACES[(place & 31) as usize];
        let time = history::time_of(self.progress(number));
        // A few days of noise, so that neighbouring sessions are not in strict order of time.
        let time = (time + (random >> 40 & 0x3_ffff) as Seconds).min(history::END);
        Session {
            lat: lat + around(place >> 5),
            lon: lon + around(place >> 33),
            time,
            tail: self.tail(time, random),
        }
    }

    fn edit(&self, number: u64, made: Seconds) -> Tail {
        let random = self.edit_draws.at(number);
        let later = scale(random >> 32, 32, u64::from(history::END - made) + 1) as Seconds;
        self.tail(made + later, random)
    }

    fn tail(&self, time: Seconds, random: u64) -> Tail {
        let mut text = [0; Tail::CAPACITY];
        text[0] = b'\t';
        text[1..=history::TIMESTAMP_LENGTH].copy_from_slice(&self.calendar.timestamp(time));
        let mut at = 1 + history::TIMESTAMP_LENGTH;
        text[at] = b'\t';
        at = put_number(&mut text, at + 1, history::changeset_at(time));
        text[at] = b'\t';
        let (user, length) = self.users[rank(random)].padded();
        text[at + 1..at + 1 + User::CAPACITY].copy_from_slice(user);
        let length = at + 1 + length;
        Tail { text, length }
    }

    /// Return the position of a session among the ids, as a fraction of 2^32.
    fn progress(&self, session: u64) -> u64 {
        ((u128::from(session) * self.progress_step) >> 64).min(1 << 32) as u64
    }
}

impl Rows for Nodes {
    fn count(&self) -> u64 {
        self.rows
    }

    fn room_for(&self, rows: usize) -> usize {
        rows * 128 + ROW_ROOM
    }

    fn write(&self, from: u64, to: u64, out: &mut [u8]) -> usize {
        let mut used = 0;
        let mut row = from;
        while row < to {
            let number = row / BLOCK;
            let block = self.block(number);
            let block_end = to.min((number + 1) * BLOCK);
            while row < block_end {
                let room: &mut [u8; ROW_ROOM] = (&mut out[used..used + ROW_ROOM])
                    .try_into()
                    .expect("the slice has this length");
                used += self.write_row(&block, row, room);
                row += 1;
            }
        }
        used
    }
}

/// Return the rank of a user: the cube of a uniform number, so that few users made most of the map.
fn rank(random: u64) -> usize {
    let uniform = random & 0x1f_ffff;
    ((uniform * uniform * uniform) >> (63 - users::RANK_BITS)) as usize
}

/// Return an offset of up to 0.0131 degrees in either direction, from 18 random bits.
#[inline]
fn offset(random: u64) -> i32 {
    (random & 0x3_ffff) as i32 - 0x2_0000
}

/// Return an offset of up to 0.42 degrees in either direction, mostly small: a sum of two uniform
/// numbers, from 28 random bits.
fn around(random: u64) -> i32 {
    let two = (random & 0x3fff) + (random >> 14 & 0x3fff);
    (two as i32 - 0x3fff) * 256
}

#[inline]
fn put_tail(room: &mut [u8; ROW_ROOM], at: usize, tail: &Tail) -> usize {
    room[at..at + Tail::USUAL].copy_from_slice(&tail.text[..Tail::USUAL]);
    if tail.length > Tail::USUAL {
        room[at + Tail::USUAL..at + Tail::CAPACITY].copy_from_slice(&tail.text[Tail::USUAL..]);
    }
    at + tail.length
}

/// Write a tab, and a number of 1e-7 degrees (below 100 degrees) with all seven decimals.
#[inline]
fn put_degrees<const N: usize>(room: &mut [u8; N], mut at: usize, value: i32) -> usize {
    room[at..at + 2].copy_from_slice(b"\t-");
    at += 1 + usize::from(value < 0);
    let magnitude = value.unsigned_abs();
    let whole = magnitude / 10_000_000;
    let mut fraction = eight(magnitude % 10_000_000);
    fraction[0] = b'.';
    if whole >= 10 {
        room[at] = b'0' + (whole / 10) as u8;
        at += 1;
    }
    room[at] = b'0' + (whole % 10) as u8;
    room[at + 1..at + 9].copy_from_slice(&fraction);
    at + 9
}

#[cfg(test)]
mod tests;
