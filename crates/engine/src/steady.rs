//! The criterion of a steady warm-up.

/// Seconds whose mean throughput is compared with that of as many before.
const WINDOW: usize = 3;

/// The two means of a steady state differ by at most this share of the later one.
const TOLERANCE: f64 = 0.02;

/// Return true where throughput has settled: the means of the last three seconds and of the three
/// before differ by 2 % at most.
///
/// Single seconds scatter more than that on most hosts. A server that does nothing is not steady.
pub fn is_steady(throughput: &[f64]) -> bool {
    let Some(start) = throughput.len().checked_sub(2 * WINDOW) else {
        return false;
    };
    let (before, after) = throughput[start..].split_at(WINDOW);
    let (before, after): (f64, f64) = (before.iter().sum(), after.iter().sum());
    after > 0.0 && (after - before).abs() <= TOLERANCE * after
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rise_is_not_steady_and_its_end_is() {
        let mut seconds = vec![10.0, 50.0, 80.0, 95.0, 99.0, 100.0];
        assert!(!is_steady(&seconds));
        seconds.extend([100.0, 101.0, 99.0]);
        assert!(is_steady(&seconds));
    }

    #[test]
    fn neither_few_seconds_nor_none_done_are_steady() {
        assert!(!is_steady(&[100.0; 5]));
        assert!(is_steady(&[100.0; 6]));
        assert!(!is_steady(&[0.0; 6]));
    }
}
