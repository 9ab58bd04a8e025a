//! The report of a benchmark, as text.

use std::collections::BTreeMap;

use super::ScreenOptions;
use super::figures::{Cell, bytes, count, histogram_lines, milliseconds, per_second, table};
use crate::tables::LoadedTable;
use engine::{DriveResult, Latencies, PacingResult, PerClient, Punctuality, Record};
use protocol::shown::shown_line;

/// Percentiles that every report has.
const PERCENTILES: [f64; 4] = [50.0, 95.0, 99.0, 99.9];

/// From this share of its threads' time on, the load generator may be what limits the throughput.
const BUSY: f64 = 0.9;

/// Return the report of a run.
pub fn text(driven: &DriveResult, options: &ScreenOptions) -> String {
    let mut parts = vec![throughput(driven)];
    parts.extend(schedule(driven));
    parts.extend(errors(driven));
    parts.push(latencies(driven, options));
    if options.histogram {
        parts.extend(histograms(driven));
    }
    parts.push(generator(driven));
    parts.extend(notes(driven).map(|note| format!("Note: {note}\n")));
    format!("\n{}", parts.join("\n"))
}

/// Return the tables that were loaded, a line each.
pub fn tables(tables: &[LoadedTable]) -> String {
    let mut rows = vec![heads(&["table"], &["rows", "rows/s", "load s", "index s"])];
    rows.extend(tables.iter().map(|loaded| {
        vec![
            Cell::word(&loaded.name),
            Cell::number(count(loaded.rows)),
            Cell::number(per_second(loaded.rows, loaded.load_s)),
            Cell::number(format!("{:.2}", loaded.load_s)),
            Cell::number(format!("{:.2}", loaded.after_load_s)),
        ]
    }));
    table(&rows)
}

fn throughput(driven: &DriveResult) -> String {
    let sum = |of: fn(&Record) -> u64| driven.statements.iter().map(of).sum::<u64>();
    let transactions: u64 = driven.transactions.iter().map(|record| record.count).sum();
    let line = |name: &str, number: u64| {
        vec![
            Cell::word(name),
            Cell::number(count(number)),
            Cell::number(per_second(number, driven.duration_s)),
        ]
    };
    let rows = [
        heads(&[&format!("Throughput in {:.2} s", driven.duration_s)], &["total", "per second"]),
        line("transactions", transactions),
        line("statements", sum(|record| record.count)),
        line("rows read", sum(|record| record.tally.rows)),
        line("rows affected", sum(|record| record.tally.affected_rows)),
    ];
    let moved = format!(
        "  {} sent, {} received\n",
        bytes(sum(|record| record.tally.bytes_sent)),
        bytes(sum(|record| record.tally.bytes_received)),
    );
    let owed = match driven.unanswered {
        0 => String::new(),
        number => format!("  {} requests without an answer\n", count(number)),
    };
    table(&rows) + &moved + &fairness(driven.clients, driven.transactions_per_client) + &owed
}

/// Write how evenly the clients were served; nothing where there is only one.
fn fairness(clients: u32, each: PerClient) -> String {
    if clients == 1 {
        return String::new();
    }
    let (least, most) = (count(each.least), count(each.most));
    format!("  {least} to {most} transactions a client\n")
}

/// Write how well the schedule was kept; None in a closed loop.
fn schedule(driven: &DriveResult) -> Option<String> {
    let PacingResult::Open { rate, arrivals, punctuality, .. } = &driven.pacing else {
        return None;
    };
    let Punctuality { scheduled, late, skipped } = *punctuality;
    let kind = format!("{arrivals:?}").to_lowercase();
    Some(format!(
        "  Schedule: {} {kind} arrivals at {rate} a second; {} began late ({}), {} skipped ({})\n",
        count(scheduled),
        count(late),
        percent(late, scheduled),
        count(skipped),
        percent(skipped, scheduled),
    ))
}

/// Errors by code with the server's words; None where there were none.
fn errors(driven: &DriveResult) -> Option<String> {
    let mut failed: BTreeMap<u16, u64> = BTreeMap::new();
    for (&code, number) in driven.statements.iter().flat_map(|record| &record.errors) {
        *failed.entry(code).or_default() += number;
    }
    let retries: u64 = driven.transactions.iter().map(|record| record.tally.retries).sum();
    let given_up: u64 = driven.transactions.iter().flat_map(|record| record.errors.values()).sum();
    if failed.is_empty() {
        return None;
    }
    let mut rows = vec![heads(&["Errors", "first message"], &["count"])];
    rows.extend(failed.iter().map(|(code, number)| {
        let message = driven.error_messages.get(code).map_or("", String::as_str);
        vec![Cell::word(code.to_string()), Cell::word(message), Cell::number(count(*number))]
    }));
    let ends =
        format!("  {} transactions begun again, {} given up\n", count(retries), count(given_up));
    Some(table(&rows) + &ends)
}

fn latencies(driven: &DriveResult, options: &ScreenOptions) -> String {
    let percentiles = percentiles(&options.percentiles);
    let mut rows = vec![latency_heads(&["Latency (ms)", ""], &percentiles)];
    // A test of single statements has each of them twice: once is enough.
    let is_single = driven.statements.len() == 1 && driven.transactions.len() == 1;
    let statements = if is_single { &[][..] } else { &driven.statements };
    for record in driven.transactions.iter().chain(statements) {
        let words = |time| [record.name.as_str(), time];
        rows.push(latency_row(&words("service"), &record.service, &percentiles));
        if let Some(response) = &record.response {
            rows.push(latency_row(&words("response"), response, &percentiles));
        }
    }
    table(&rows)
}

/// Return the usual percentiles and those asked for, from the least to the greatest.
pub fn percentiles(asked: &[f64]) -> Vec<f64> {
    let usual = PERCENTILES.into_iter();
    let mut percentiles: Vec<f64> = usual.chain(asked.iter().copied()).collect();
    percentiles.sort_by(f64::total_cmp);
    percentiles.dedup();
    percentiles
}

/// Return the first row of a table of latencies; `words` stand over the words of its rows.
pub fn latency_heads(words: &[&str], percentiles: &[f64]) -> Vec<Cell> {
    let names = percentiles.iter().map(|percentile| format!("p{percentile}"));
    let numbers = ["count", "mean", "min"].map(str::to_owned).into_iter();
    let numbers = numbers.chain(names).chain(["max".to_owned()]);
    let words = words.iter().map(|word| Cell::word(*word));
    words.chain(numbers.map(Cell::Number)).collect()
}

/// Return a row of a table of latencies, in milliseconds.
pub fn latency_row(words: &[&str], latencies: &Latencies, percentiles: &[f64]) -> Vec<Cell> {
    let values = percentiles.iter().map(|percentile| latencies.percentile_s(*percentile));
    let values = [latencies.mean_s(), latencies.min_s()].into_iter().chain(values);
    let values = values.chain([latencies.max_s()]).map(milliseconds);
    let count = [count(latencies.count())].into_iter();
    let words = words.iter().map(|word| Cell::word(*word));
    words.chain(count.chain(values).map(Cell::Number)).collect()
}

/// Return the latencies that users would feel, drawn for each transaction.
fn histograms(driven: &DriveResult) -> impl Iterator<Item = String> {
    driven.transactions.iter().map(|record| {
        let latencies = record.response.as_ref().unwrap_or(&record.service);
        format!("  {}\n{}", record.name, histogram_lines(latencies.histogram()))
    })
}

fn generator(driven: &DriveResult) -> String {
    let usage = &driven.client.usage;
    let statements: u64 = driven.statements.iter().map(|record| record.count).sum();
    format!(
        "  Load generator: {} {}, {:.2} s CPU ({:.2} user, {:.2} system), {} a statement, \
         {:.1} % of the host; {} voluntary and {} involuntary switches; {:.2} s to connect\n",
        driven.threads,
        if driven.threads == 1 { "thread" } else { "threads" },
        usage.cpu_s(),
        usage.user_s(),
        usage.system_s(),
        microseconds_each(usage.cpu_s(), statements),
        100.0 * driven.client.host_share,
        usage.voluntary_switches,
        usage.involuntary_switches,
        driven.connect_s,
    )
}

/// Write the notes that a reader of the figures needs.
fn notes(driven: &DriveResult) -> impl Iterator<Item = String> {
    let partial = driven
        .partial_reason
        .as_ref()
        .map(|reason| format!("the result is partial: {}", shown_line(reason)));
    let unsteady = (driven.warmup_steady == Some(false))
        .then(|| "the throughput had not become steady when the warm-up ended".to_owned());
    let busy = driven.client.usage.cpu_s() / (driven.duration_s * f64::from(driven.threads));
    // Spinning threads are always busy.
    let is_limit = !driven.busy_poll && busy > BUSY;
    let limit = is_limit.then(|| {
        format!(
            "the load generator's threads were busy {:.0} % of the time: the server may be faster \
             than this; try more --engine-threads",
            100.0 * busy
        )
    });
    let late = waits_long(driven).then(|| {
        "transactions waited longer for a free client than the server took for them: it cannot keep \
         the rate, or there are too few --connections"
            .to_owned()
    });
    [partial, unsteady, limit, late].into_iter().flatten()
}

/// Return true where response time is more wait than service.
fn waits_long(driven: &DriveResult) -> bool {
    let sum = |of: fn(&Record) -> f64| driven.transactions.iter().map(of).sum::<f64>();
    let service_s = sum(|record| record.service.sum_s());
    let response_s = sum(|record| record.response.as_ref().map_or(0.0, Latencies::sum_s));
    response_s > 2.0 * service_s
}

fn heads(words: &[&str], numbers: &[&str]) -> Vec<Cell> {
    let words = words.iter().map(|word| Cell::word(*word));
    words.chain(numbers.iter().map(|number| Cell::number(*number))).collect()
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.2} %", 100.0 * part as f64 / whole.max(1) as f64)
}

fn microseconds_each(seconds: f64, number: u64) -> String {
    if number == 0 {
        return "-".to_owned();
    }
    format!("{:.1} µs", seconds * 1e6 / number as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_is_told_of_several_clients() {
        let each = PerClient::of([1_200, 900, 1_000]);
        assert_eq!(fairness(3, each), "  900 to 1,200 transactions a client\n");
        assert_eq!(fairness(1, each), "");
    }
}
