//! The values of options.

use std::time::Duration;

use crate::cli::number_up_to;
use engine::{CPU_NUMBERS, Warmup};

/// A warm-up until the throughput is steady gives up after so long.
const STEADY_LIMIT: Duration = Duration::from_secs(300);

/// Numbers of processors, each once.
#[derive(Clone)]
pub struct CpuList(pub Vec<usize>);

/// Read seconds.
pub fn seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "expected seconds".to_owned())
}

/// Read seconds above 0.
pub fn positive_seconds(text: &str) -> Result<Duration, String> {
    seconds(text)
        .ok()
        .filter(|time| !time.is_zero())
        .ok_or_else(|| "expected seconds above 0".to_owned())
}

/// Read seconds, or `steady`.
pub fn warmup(text: &str) -> Result<Warmup, String> {
    if text == "steady" {
        return Ok(Warmup::Steady { limit: STEADY_LIMIT });
    }
    seconds(text).map(Warmup::Time).map_err(|_| "expected seconds, or steady".to_owned())
}

/// Read transactions a second; 0 is one.
pub fn rate(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|rate: &f64| rate.is_finite() && *rate >= 0.0)
        .ok_or_else(|| "expected transactions a second".to_owned())
}

/// Read a percentile, from above 0 to 100.
pub fn percentile(text: &str) -> Result<f64, String> {
    number_up_to(100.0, text)
}

/// Read `NAME=VALUE`.
pub fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

/// Read numbers and ranges: `0,2-3`.
pub fn cpu_list(text: &str) -> Result<CpuList, String> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (first.parse::<usize>(), last.parse::<usize>()) {
            (Ok(_), Ok(last)) if last >= CPU_NUMBERS => {
                let most = CPU_NUMBERS - 1;
                return Err(format!("processors are numbered from 0 to {most}, not {last}"));
            }
            (Ok(first), Ok(last)) if first <= last => cpus.extend(first..=last),
            (Ok(first), Ok(last)) => {
                return Err(format!("{part:?} ends before it begins; say {last}-{first}"));
            }
            _ => return Err(format!("{part:?} is neither a processor nor a range such as 2-3")),
        }
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(CpuList(cpus))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors() {
        let cpus = |text| cpu_list(text).map(|CpuList(cpus)| cpus);
        assert_eq!(cpus("0"), Ok(vec![0]));
        assert_eq!(cpus("3,0-2,1"), Ok(vec![0, 1, 2, 3]));
        assert_eq!(cpus("1023"), Ok(vec![1023]));
        for (wrong, why) in [
            ("", "is neither a processor"),
            ("a", "is neither a processor"),
            ("1-", "is neither a processor"),
            ("0,,1", "is neither a processor"),
            ("0,3-1", "say 1-3"),
            ("1024", "from 0 to 1023, not 1024"),
            ("0-99999999", "from 0 to 1023"),
        ] {
            let error = cpus(wrong).unwrap_err();
            assert!(error.contains(why), "{wrong:?}: {error}");
        }
    }

    #[test]
    fn times_and_shares() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert!(seconds("-1").is_err());
        assert!(positive_seconds("0").is_err() && positive_seconds("0.1").is_ok());
        assert!(matches!(warmup("steady"), Ok(Warmup::Steady { .. })));
        assert!(percentile("0").is_err() && percentile("100.1").is_err());
        assert_eq!(percentile("99.99"), Ok(99.99));
    }
}
