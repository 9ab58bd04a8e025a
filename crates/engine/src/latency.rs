//! Latencies: an `HdrHistogram` of nanoseconds, with the exact sum, minimum and maximum.

use std::fmt::{self, Debug, Formatter};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer as HistogramReader, Serializer, V2Serializer};
use serde::de::Error;
use serde::{Deserialize, Serialize};

use super::clock::seconds;

/// The lower bound. With 1 µs, latencies would have a resolution of half a microsecond, more than a
/// hundredth of a quick statement's latency; with 1 ns, 1 µs has three digits too.
const LOW_NS: u64 = 1;

/// The upper bound: 1 h. Longer latencies are counted as 1 h; their sum and maximum stay exact.
const HIGH_NS: u64 = 3_600_000_000_000;

/// The number of significant decimal digits.
const DIGITS: u8 = 3;

/// A set of recorded latencies.
#[derive(Clone, PartialEq)]
pub struct Latencies {
    histogram: Histogram<u64>,
    sum_ns: u64,
    min_ns: u64,
    max_ns: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self::with_digits(DIGITS)
    }
}

impl Latencies {
    /// Return an empty set with two significant digits, for percentiles that are shown once. It
    /// needs an eighth of the memory and of the CPU's cache.
    pub fn rough() -> Self {
        Self::with_digits(DIGITS - 1)
    }

    fn with_digits(digits: u8) -> Self {
        Self {
            histogram: Histogram::new_with_bounds(LOW_NS, HIGH_NS, digits)
                .expect("the bounds are constants in range"),
            sum_ns: 0,
            min_ns: u64::MAX,
            max_ns: 0,
        }
    }

    #[inline]
    pub fn record(&mut self, nanoseconds: u64) {
        self.histogram.saturating_record(nanoseconds);
        self.sum_ns += nanoseconds;
        self.min_ns = self.min_ns.min(nanoseconds);
        self.max_ns = self.max_ns.max(nanoseconds);
    }

    /// Add latencies with the same number of digits.
    pub fn merge(&mut self, other: &Self) {
        debug_assert_eq!(self.histogram.sigfig(), other.histogram.sigfig());
        self.histogram.add(&other.histogram).expect("all histograms have the same bounds");
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    pub fn histogram(&self) -> &Histogram<u64> {
        &self.histogram
    }

    pub fn sum_s(&self) -> f64 {
        seconds(self.sum_ns)
    }

    /// Return the mean in seconds; None if nothing was recorded.
    pub fn mean_s(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum_s() / self.count() as f64)
    }

    /// Return the minimum in seconds; None if nothing was recorded.
    pub fn min_s(&self) -> Option<f64> {
        (self.count() > 0).then(|| seconds(self.min_ns))
    }

    /// Return the maximum in seconds; None if nothing was recorded.
    pub fn max_s(&self) -> Option<f64> {
        (self.count() > 0).then(|| seconds(self.max_ns))
    }

    /// Return the percentile in seconds; None if nothing was recorded.
    pub fn percentile_s(&self, percent: f64) -> Option<f64> {
        // The upper end of a bucket may be above all latencies in it. 99.9 / 100 is slightly more
        // than 0.999, which is one latency too far in 1000.
        let quantile = (percent * 1e10).round() / 1e12;
        let value = self.histogram.value_at_quantile(quantile).min(self.max_ns);
        (self.count() > 0).then(|| seconds(value))
    }
}

/// Return a histogram in `HdrHistogram` V2 format, base64.
pub fn encoded(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    V2Serializer::new()
        .serialize(histogram, &mut bytes)
        .expect("a histogram of this size fits into memory");
    STANDARD.encode(bytes)
}

impl Debug for Latencies {
    /// Omit the thousands of counts.
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.debug_struct("Latencies")
            .field("count", &self.count())
            .field("sum_s", &self.sum_s())
            .field("min_s", &self.min_s())
            .field("max_s", &self.max_s())
            .finish_non_exhaustive()
    }
}

impl Serialize for Latencies {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let row = LatencyRow {
            encoded: encoded(&self.histogram),
            count: self.count(),
            sum_s: self.sum_s(),
            min_s: self.min_s(),
            max_s: self.max_s(),
        };
        row.serialize(serializer)
    }
}

/// The serialized form; the histogram contains the count too.
#[derive(Deserialize, Serialize)]
struct LatencyRow {
    encoded: String,
    count: u64,
    sum_s: f64,
    min_s: Option<f64>,
    max_s: Option<f64>,
}

impl<'de> Deserialize<'de> for Latencies {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = LatencyRow::deserialize(deserializer)?;
        let bytes = STANDARD.decode(&written.encoded).map_err(D::Error::custom)?;
        let histogram: Histogram<u64> =
            HistogramReader::new().deserialize(&mut bytes.as_slice()).map_err(D::Error::custom)?;
        let bounds = (histogram.low(), histogram.high(), histogram.sigfig());
        if bounds != (LOW_NS, HIGH_NS, DIGITS) {
            return Err(D::Error::custom("a histogram of other bounds"));
        }
        let nothing = Self::default();
        Ok(Self {
            histogram,
            sum_ns: nanoseconds(written.sum_s),
            min_ns: written.min_s.map_or(nothing.min_ns, nanoseconds),
            max_ns: written.max_s.map_or(nothing.max_ns, nanoseconds),
        })
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // the cast saturates
fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn recorded(latencies: &[u64]) -> Latencies {
        let mut all = Latencies::default();
        for &latency in latencies {
            all.record(latency);
        }
        all
    }

    proptest! {
        #[test]
        fn merged_parts_equal_the_whole(
            latencies in proptest::collection::vec(0..2 * HIGH_NS, 1..50), at: prop::sample::Index,
        ) {
            let (left, right) = latencies.split_at(at.index(latencies.len()));
            let mut merged = recorded(left);
            merged.merge(&recorded(right));
            prop_assert_eq!(&merged, &recorded(&latencies));
            prop_assert_eq!(merged.count(), latencies.len() as u64);
            prop_assert_eq!(merged.max_s(), latencies.iter().max().map(|&max| seconds(max)));
        }

        #[test]
        fn what_is_written_can_be_read_back(latency in LOW_NS..HIGH_NS) {
            let value = serde_json::to_value(recorded(&[latency])).unwrap();
            let bytes = STANDARD.decode(value["encoded"].as_str().unwrap()).unwrap();
            let read: Histogram<u64> =
                HistogramReader::new().deserialize(&mut bytes.as_slice()).unwrap();
            prop_assert_eq!((read.low(), read.high(), read.sigfig()), (LOW_NS, HIGH_NS, DIGITS));
            prop_assert!(read.max().abs_diff(latency) <= latency / 1000);
            prop_assert_eq!(value["sum_s"].as_f64(), Some(seconds(latency)));
            let whole: Latencies = serde_json::from_value(value).unwrap();
            prop_assert_eq!(whole, recorded(&[latency]));
        }
    }

    #[test]
    fn a_percentile_is_the_least_that_suffices_and_not_above_the_greatest() {
        let thousand: Vec<u64> = (1..=1000).collect();
        let at = |percent| recorded(&thousand).percentile_s(percent).unwrap() * 1e9;
        for (percent, rank) in [(50.0, 500.0), (99.0, 990.0), (99.9, 999.0), (100.0, 1000.0)] {
            assert!((at(percent) - rank).abs() < 1e-6, "{percent} %: {}", at(percent));
        }
        assert_eq!(recorded(&[1_234_567]).percentile_s(100.0), Some(0.001_234_567));
    }

    #[test]
    fn nothing_recorded_has_no_extremes() {
        let value = serde_json::to_value(Latencies::default()).unwrap();
        assert_eq!(value["count"], 0);
        assert!(value["min_s"].is_null() && value["max_s"].is_null());
        assert_eq!(Latencies::default().percentile_s(99.0), None);
    }
}
