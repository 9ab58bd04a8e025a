//! The floor: the least that a client of this host can cost. One thread, an epoll loop, and ready
//! packets that are sent as soon as an answer of the right length has come; nothing is understood,
//! counted by kind or drawn. `--by engine` sends the same packets through the engine instead.

use std::io;
use std::path::PathBuf;
use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use engine::{DriveSettings, End, Latencies, ResourceUsage};
use protocol::ClientError;
use protocol::mysql::MysqlAnswerReader;
use protocol::mysql::binary::{Execute, Kind, put_query};
use protocol::mysql::channel::Channel;
use protocol::mysql::{Address, Connection, Deadline, Login, Tls, TlsMode};
use protocol::script::{Names, Request, Script};
use protocol::{AnswerReader as _, Session as _};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use serde_json::json;

/// Ready packets; connections take them in turn.
const PACKETS: u64 = 64;

/// Sends one statement over and over on several connections, and prints what that costs as JSON.
#[derive(Clone, Parser)]
struct Arguments {
    #[arg(long)]
    socket: Option<PathBuf>,
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    #[arg(long, default_value_t = 3306)]
    port: u16,
    #[arg(long)]
    user: String,
    #[arg(long, default_value = "")]
    password: String,
    #[arg(long)]
    database: Option<String>,
    #[arg(long, default_value_t = 1)]
    connections: u32,
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// The statement: {id} and {end} stand for a row's number and the one that is `span` further;
    /// prepared, the first ? is the one and the second the other.
    #[arg(long)]
    sql: String,
    #[arg(long)]
    prepared: bool,
    /// Row numbers are from 1 to this.
    #[arg(long, default_value_t = 10_000)]
    rows: u64,
    #[arg(long, default_value_t = 0)]
    span: u64,
    #[arg(long, value_enum, default_value_t = By::Floor)]
    by: By,
    /// For the engine: spin instead of sleeping.
    #[arg(long)]
    busy_poll: bool,
    #[arg(long, default_value_t = 1)]
    threads: u32,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum By {
    Floor,
    Engine,
}

/// The measurements of either driver.
struct Measured {
    queries: u64,
    seconds: f64,
    usage: ResourceUsage,
    latencies: Latencies,
}

fn main() {
    let arguments = Arguments::parse();
    let measured = match arguments.by {
        By::Floor => run_floor(&arguments),
        By::Engine => run_engine(&arguments),
    };
    let measured = measured.unwrap_or_else(|error| {
        eprintln!("floor: {error}");
        exit(2)
    });
    let client_us = measured.usage.cpu_s() * 1e6;
    let microseconds = |percent| measured.latencies.percentile_s(percent).map(|s| s * 1e6);
    println!(
        "{}",
        json!({
            "connections": arguments.connections,
            "queries": measured.queries,
            "seconds": measured.seconds,
            "queries_per_second": per(measured.queries, measured.seconds),
            "user_s": measured.usage.user_s(),
            "system_s": measured.usage.system_s(),
            "client_us_per_query": client_us / per(measured.queries, 1.0),
            "p50_us": microseconds(50.0),
            "p99_us": microseconds(99.0),
            "latencies": measured.latencies,
        })
    );
}

fn per(count: u64, seconds: f64) -> f64 {
    count as f64 / seconds
}

/// Log in and give the packets that ask the statement for one row after the other.
fn open(arguments: &Arguments, number: u32) -> Result<(Channel, Packets), ClientError> {
    let stop = Arc::new(AtomicBool::new(false));
    let deadline = Deadline::start(&stop, Some(Duration::from_secs(30)));
    let address = match &arguments.socket {
        Some(path) => Address::Socket(path.clone()),
        None => Address::Tcp { host: arguments.host.clone(), port: arguments.port },
    };
    let login = Login {
        address,
        user: arguments.user.clone(),
        password: arguments.password.clone(),
        database: arguments.database.clone(),
        tls: Tls::new(TlsMode::Disabled, None).expect("no TLS needs no certificate"),
        allow_unverified: true,
    };
    let mut connection = Connection::open(&login, &deadline)?;
    let prepared = if arguments.prepared {
        Some(connection.prepare(&arguments.sql, &deadline)?)
    } else {
        None
    };
    let packets = (0..PACKETS)
        .map(|position| {
            // Any order will do that does not visit neighbours one after the other.
            let id = 1 + (position * PACKETS + u64::from(number)) * 7_919 % arguments.rows;
            let end = id + arguments.span;
            let mut packet = Vec::new();
            match &prepared {
                None => {
                    let sql = arguments.sql.replace("{id}", &id.to_string());
                    let sql = sql.replace("{end}", &end.to_string());
                    put_query(&mut packet, |out| out.extend_from_slice(sql.as_bytes()));
                }
                Some(prepared) => {
                    let count = prepared.parameters;
                    // Declared each time, as most clients do.
                    let kinds = vec![Kind::Integer; usize::from(count)];
                    let mut execute = Execute::begin(&mut packet, prepared.id, count, &kinds);
                    for value in [id, end].into_iter().take(usize::from(count)) {
                        execute.integer(value.cast_signed());
                    }
                    execute.end();
                }
            }
            packet
        })
        .collect();
    let packets = Packets { packets, next: 0 };
    Ok((connection.into_channel()?, packets))
}

/// Ready packets, one after the other and again.
struct Packets {
    packets: Vec<Vec<u8>>,
    next: usize,
}

impl Packets {
    fn next(&mut self) -> &[u8] {
        let packet = &self.packets[self.next];
        self.next = (self.next + 1) % self.packets.len();
        packet
    }
}

impl Script for Packets {
    fn next(&mut self, out: &mut Vec<u8>) -> Option<Request> {
        out.extend_from_slice(Packets::next(self));
        Some(Request { first: true, last: true, ..Request::default() })
    }
}

fn run_engine(arguments: &Arguments) -> Result<Measured, ClientError> {
    let end = End::Time(Duration::from_secs_f64(arguments.seconds));
    let closed = DriveSettings::closed_loop(arguments.connections, arguments.threads, end);
    let settings = DriveSettings { busy_poll: arguments.busy_poll, ..closed };
    let names = Names {
        statements: vec!["statement".to_owned()],
        transactions: vec!["statement".to_owned()],
    };
    let stop = AtomicBool::new(false);
    let open = |number| open(arguments, number);
    let mut driven = engine::drive(&settings, &names, open, None, &|_| {}, &stop)
        .map_err(|failed| failed.error)?;
    let record = driven.statements.remove(0);
    Ok(Measured {
        queries: record.count,
        seconds: driven.duration_s,
        usage: driven.client.usage,
        latencies: record.service,
    })
}

/// One connection of the floor.
struct Peer {
    channel: Channel,
    packets: Packets,
    /// The length of an answer, and how much of the current one has come.
    answer: usize,
    received: usize,
    sent: Instant,
}

fn run_floor(arguments: &Arguments) -> Result<Measured, ClientError> {
    let mut peers = Vec::new();
    for number in 0..arguments.connections {
        let (channel, packets) = open(arguments, number)?;
        peers.push(Peer { channel, packets, answer: 0, received: 0, sent: Instant::now() });
    }
    for peer in &mut peers {
        peer.answer = ask_once(peer)?;
    }
    ping_pong(&mut peers, Duration::from_secs_f64(arguments.seconds)).map_err(|source| {
        ClientError::Connection { context: "lost a connection".to_owned(), source }
    })
}

/// Ask and wait; the length of the answer, which all later ones are to have.
fn ask_once(peer: &mut Peer) -> Result<usize, ClientError> {
    let lost = |source| ClientError::Connection { context: "lost a connection".to_owned(), source };
    peer.channel.write(peer.packets.next()).map_err(lost)?;
    let mut reader = MysqlAnswerReader::default();
    let mut buffer = vec![0; 64 << 10];
    let mut length = 0;
    loop {
        match peer.channel.read(&mut buffer) {
            Ok(count) => {
                length += count;
                if let Some(end) = reader.feed(&buffer[..count])?.end {
                    return match end.error {
                        Some(error) => Err((*error).into()),
                        None => Ok(length),
                    };
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(lost(error)),
        }
    }
}

fn ping_pong(peers: &mut [Peer], duration: Duration) -> io::Result<Measured> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    for (index, peer) in peers.iter().enumerate() {
        let token = EventData::new_u64(index as u64);
        epoll::add(&epoll, &peer.channel, token, EventFlags::IN | EventFlags::ET)?;
    }
    let mut latencies = Latencies::default();
    let mut buffer = vec![0; 64 << 10];
    let mut events = Vec::with_capacity(256);
    let before = ResourceUsage::now();
    let started = Instant::now();
    let mut now = started;
    for peer in peers.iter_mut() {
        peer.sent = Instant::now();
        send(peer)?;
    }
    while now - started < duration {
        events.clear();
        epoll::wait(&epoll, spare_capacity(&mut events), None)?;
        for event in &events {
            let peer = &mut peers[usize::try_from(event.data.u64()).expect("tokens are indexes")];
            let count = peer.channel.read(&mut buffer)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            peer.received += count;
            // Answers without rows differ in the length of their numbers, and are one packet.
            let is_whole = match buffer[4] {
                0 if peer.received < 64 => peer.received == usize::from(buffer[0]) + 4,
                _ => peer.received >= peer.answer,
            };
            if is_whole {
                peer.received = 0;
                now = Instant::now();
                latencies.record(u64::try_from((now - peer.sent).as_nanos()).unwrap_or(u64::MAX));
                peer.sent = now;
                send(peer)?;
            }
        }
    }
    let (after, seconds) = (ResourceUsage::now(), started.elapsed().as_secs_f64());
    Ok(Measured { queries: latencies.count(), seconds, usage: after.since(&before), latencies })
}

fn send(peer: &mut Peer) -> io::Result<()> {
    let packet = peer.packets.next();
    if peer.channel.write(packet)? < packet.len() {
        return Err(io::Error::other("a packet did not fit into the socket"));
    }
    Ok(())
}
