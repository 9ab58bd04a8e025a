//! The output for people while a benchmark runs.

use std::io::{self, Write};
use std::path::Path;

use super::figures::{bytes, count, milliseconds, per_second};
use super::{Command, ScreenOptions, Settings, report};
use crate::events::{Event, EventListener, PhaseResult};
use crate::spec::Drive;
use engine::{Interval, Latencies, Pacing, Part, Totals, Warmup};
use protocol::mysql::Login;
use protocol::shown::shown_line;
use workload::program::Protocol;

/// Writes what happens as text.
pub struct Screen {
    out: Box<dyn Write + Send>,
    /// The heading, shown once the server is known.
    heading: String,
    options: ScreenOptions,
    is_open_loop: bool,
    clients: u32,
    pending: Option<Sum>,
}

impl Screen {
    pub fn new(settings: &Settings) -> Self {
        // Standard output is the JSON's where it was asked for.
        let out: Box<dyn Write + Send> = match settings.json.as_deref() {
            Some(path) if path == Path::new("-") => Box::new(io::stderr()),
            _ => Box::new(io::stdout()),
        };
        let drive = match &settings.command {
            Command::Run(drive) => Some(drive.as_ref()),
            Command::Prepare { .. } | Command::Cleanup => None,
        };
        Self {
            out,
            heading: heading(settings),
            options: settings.screen_options.clone(),
            is_open_loop: drive.is_some_and(|drive| drive.settings.is_open_loop()),
            clients: drive.map_or(0, |drive| drive.settings.clients),
            pending: None,
        }
    }

    /// Print an interval, or add it to those that are shown together.
    fn interval(&mut self, interval: &Interval) -> io::Result<()> {
        if self.options.interval_s == 0 {
            return Ok(());
        }
        // The rest of the warm-up is not shown.
        let pending = self.pending.take().filter(|sum| sum.part == interval.part);
        let mut sum = pending.unwrap_or_else(|| Sum::of(interval.part));
        sum.add(interval);
        if sum.intervals < self.options.interval_s {
            self.pending = Some(sum);
            return Ok(());
        }
        self.print_line(&sum)
    }

    fn print_line(&mut self, sum: &Sum) -> io::Result<()> {
        let line = sum.line(self.clients, self.is_open_loop);
        writeln!(self.out, "{line}")?;
        self.out.flush()
    }

    fn phase(&mut self, result: &PhaseResult<'_>) -> io::Result<()> {
        if let Some(rest) = self.pending.take() {
            self.print_line(&rest)?;
        }
        let text = match result {
            PhaseResult::LoadTables {
                duration_s,
                tables,
                method,
                method_reason,
                rows_sent,
                bytes_sent,
                ..
            } => {
                let method = match method_reason {
                    Some(reason) => format!("{method:?}, because {}", shown_line(reason)),
                    None => format!("{method:?}"),
                };
                format!(
                    "{} tables, {} rows, {} in {duration_s:.2} s: {} rows/s ({method})\n{}",
                    tables.len(),
                    count(*rows_sent),
                    bytes(*bytes_sent),
                    per_second(*rows_sent, *duration_s),
                    report::tables(tables),
                )
            }
            PhaseResult::VerifyTables { duration_s, rows } => format!(
                "{} rows verified by count and checksum in {duration_s:.2} s\n",
                count(*rows)
            ),
            PhaseResult::Drive { driven, .. } => report::text(driven, &self.options),
            PhaseResult::Statement(result) => {
                format!("tables dropped in {:.2} s\n", result.duration_s)
            }
            PhaseResult::LoadData(_) | PhaseResult::WarmTables { .. } => String::new(),
        };
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}

impl EventListener for Screen {
    fn on_event(&mut self, event: &Event<'_>) -> io::Result<()> {
        match event {
            Event::Start { server_version, .. } => {
                let version = shown_line(server_version);
                writeln!(self.out, "{}", self.heading.replace("{version}", &version))?;
                self.out.flush()
            }
            Event::Interval { t_s, rows, bytes: sent, .. } => {
                writeln!(self.out, "[ {t_s:.0}s ] {} rows, {} sent", count(*rows), bytes(*sent))?;
                self.out.flush()
            }
            Event::DriveInterval { interval, .. } => self.interval(interval),
            Event::Phase { result, .. } => self.phase(result),
            // The error's text and the exit status are the caller's; the rest is for programs.
            Event::Mark { .. } | Event::Error { .. } | Event::Summary { .. } => Ok(()),
        }
    }
}

fn heading(settings: &Settings) -> String {
    let Login { address, user, database, .. } = &settings.login;
    let mut text = format!(
        "{}: {} ({})\nserver {{version}} at {address}, database {}, user {user}",
        settings.test,
        settings.title,
        settings.workload_name,
        database.as_deref().unwrap_or("none"),
    );
    if let Command::Run(drive) = &settings.command {
        text.push('\n');
        text.push_str(&drive_heading(drive));
    }
    text.push('\n');
    text
}

fn drive_heading(drive: &Drive) -> String {
    let clients = drive.settings.clients;
    let statements = match drive.protocol {
        Protocol::Prepared => "prepared statements",
        Protocol::Text => "statements as text",
    };
    let pacing = match drive.settings.pacing {
        Pacing::Closed => "as fast as they can".to_owned(),
        Pacing::Open { rate, .. } => format!("{rate} transactions a second together"),
    };
    let warmup = match drive.settings.warmup {
        Warmup::Time(time) if time.is_zero() => String::new(),
        Warmup::Time(time) => format!(", warm-up {} s", time.as_secs_f64()),
        Warmup::Steady { .. } => ", warm-up until steady".to_owned(),
    };
    format!(
        "{clients} {}, {statements}, {pacing}{warmup}",
        if clients == 1 { "client" } else { "clients" }
    )
}

/// Intervals that are shown together.
struct Sum {
    part: Part,
    intervals: u32,
    t_s: f64,
    duration_s: f64,
    totals: Totals,
    latencies: Latencies,
}

impl Sum {
    fn of(part: Part) -> Self {
        Self {
            part,
            intervals: 0,
            t_s: 0.0,
            duration_s: 0.0,
            totals: Totals::default(),
            latencies: Latencies::rough(),
        }
    }

    fn add(&mut self, interval: &Interval) {
        self.intervals += 1;
        self.t_s = interval.t_s;
        self.duration_s += interval.duration_s;
        self.totals.add(&interval.totals);
        self.latencies.merge(&interval.latencies);
    }

    fn line(&self, clients: u32, is_open_loop: bool) -> String {
        let rate = |number| per_second(number, self.duration_s);
        let schedule = if is_open_loop {
            let (late, skipped) = (rate(self.totals.late), rate(self.totals.skipped));
            format!(" late/s: {late} skipped/s: {skipped}")
        } else {
            String::new()
        };
        format!(
            "[ {:.0}s ] {}clients: {clients} tps: {} qps: {} lat (ms) p50: {} p99: {} max: {} \
             err/s: {} retry/s: {}{schedule}",
            self.t_s,
            match self.part {
                Part::Warmup => "warm-up ",
                Part::Measure => "",
            },
            rate(self.totals.transactions),
            rate(self.totals.statements),
            milliseconds(self.latencies.percentile_s(50.0)),
            milliseconds(self.latencies.percentile_s(99.0)),
            milliseconds(self.latencies.max_s()),
            rate(self.totals.errors),
            rate(self.totals.retries),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::Counts;

    #[test]
    fn intervals_together_have_the_percentiles_of_one() {
        let mut counts = Counts::default();
        for latency_ns in [1_239_999, 2_345_678, 9_876_543] {
            counts.latencies.record(latency_ns);
        }
        let interval = Interval::new(Part::Measure, 1.0, 1.0, &counts);
        let mut sum = Sum::of(Part::Measure);
        sum.add(&interval);
        assert_eq!(sum.latencies, *interval.latencies);
        sum.add(&interval);
        for percentile in [50.0, 99.0] {
            let expected = counts.latencies.percentile_s(percentile);
            assert_eq!(sum.latencies.percentile_s(percentile), expected);
        }
    }
}
