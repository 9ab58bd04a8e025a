//! Parses the kernel's texts about threads and descriptors.

use std::str;

use libc::c_long;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// Runs or waits for a CPU.
    Running,
    /// Blocked outside of system calls, for example in a page fault.
    Blocked,
    /// Blocked in a system call with these first two arguments.
    Calling { number: c_long, arguments: [u64; 2] },
}

/// Parse `/proc/PID/task/TID/syscall`: `running`; or the call's number, six arguments and two
/// registers; or -1 and the registers. Return None for any other text.
pub fn parse_syscall(text: &[u8]) -> Option<Activity> {
    let text = str::from_utf8(text).ok()?.trim_ascii_end();
    if text == "running" {
        return Some(Activity::Running);
    }
    let mut words = text.split(' ');
    let number = words.next()?.parse().ok()?;
    let mut argument = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let arguments = [argument()?, argument()?];
    match number {
        -1 => Some(Activity::Blocked),
        0.. => Some(Activity::Calling { number, arguments }),
        _ => None,
    }
}

/// Return the state's letter in `/proc/PID/task/TID/stat`. It follows the thread's name, which may
/// contain any character.
pub fn state(text: &[u8]) -> Option<char> {
    let end = text.iter().rposition(|&byte| byte == b')')?;
    match text.get(end + 1..end + 3)? {
        &[b' ', letter] if letter.is_ascii_alphabetic() => Some(letter.into()),
        _ => None,
    }
}

/// Return a thread's CPU time, the first number of `/proc/PID/task/TID/schedstat`.
pub fn ran_ns(text: &[u8]) -> Option<u64> {
    str::from_utf8(text).ok()?.split(' ').next()?.parse().ok()
}

/// Return the functions of `/proc/PID/task/TID/stack`, the outermost first, joined by semicolons.
/// Return None if the innermost function is not `wchan`, because the thread has continued since.
pub fn stack(text: &str, wchan: &str) -> Option<String> {
    let functions = text.lines().filter_map(|line| {
        let (_, place) = line.split_once("] ")?;
        place.split('+').next()
    });
    let mut functions: Vec<&str> = functions.collect();
    if functions.first() != Some(&wchan) {
        return None;
    }
    functions.reverse();
    Some(functions.join(";"))
}

/// Return whether writes to a file are durable at once (`O_DSYNC`, `O_SYNC`), by
/// `/proc/PID/fdinfo/N`.
pub fn writes_through(text: &str) -> bool {
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|octal| libc::c_int::from_str_radix(octal.trim(), 8).ok());
    flags.is_some_and(|flags| flags & libc::O_DSYNC != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn texts_of_a_kernel() {
        let futex =
            b"202 0x7f2a80000b70 0x189 0x0 0x0 0x0 0xffffffff 0x7f2a8cdfe9c0 0x7f2a9f2a3117\n";
        let expected = Activity::Calling { number: 202, arguments: [0x7f2a_8000_0b70, 0x189] };
        assert_eq!(parse_syscall(futex), Some(expected));
        assert_eq!(parse_syscall(b"running\n"), Some(Activity::Running));
        assert_eq!(parse_syscall(b"-1 0x7ffd7c2c5b58 0x7f2a9f2a3117\n"), Some(Activity::Blocked));
        assert_eq!(parse_syscall(b"-1 0x0 0x0\n"), Some(Activity::Blocked));
        for other in ["", "\n", "0", "-2 0x0 0x0", "1 2 3", "sleeping\n"] {
            assert_eq!(parse_syscall(other.as_bytes()), None, "{other:?}");
        }
    }

    #[test]
    fn a_state_stands_behind_any_name_and_the_time_on_a_cpu_first() {
        assert_eq!(state(b"7 (ib_io_rd-1) D 1 2 3 0 -1"), Some('D'));
        assert_eq!(state(b"7 (a) R (b) S 1 2"), Some('S'));
        for other in ["7 (a", "7 (a)", "7 (a) 1"] {
            assert_eq!(state(other.as_bytes()), None, "{other}");
        }
        assert_eq!((ran_ns(b"123456789 42 7\n"), ran_ns(b"")), (Some(123_456_789), None));
    }

    #[test]
    fn a_stack_is_that_of_what_it_is_blocked_in() {
        let text = "[<0>] jbd2_log_wait_commit+0xdc/0x140 [jbd2]\n\
                    [<0>] do_fsync.part.0+0x38/0x70\n\
                    [<ffffffff81000000>] do_syscall_64+0x71/0x280\n";
        let expected = "do_syscall_64;do_fsync.part.0;jbd2_log_wait_commit";
        assert_eq!(stack(text, "jbd2_log_wait_commit").unwrap(), expected);
        assert_eq!(stack(text, "do_fsync.part.0"), None);
        assert_eq!(stack("", "jbd2_log_wait_commit"), None);
    }

    #[test]
    fn flags_of_descriptors() {
        let info = |flags| format!("pos:\t0\nflags:\t{flags}\nmnt_id:\t29\n");
        assert!(writes_through(&info("04012002"))); // O_SYNC
        assert!(writes_through(&info("0110001"))); // O_DSYNC
        assert!(!writes_through(&info("02100002")));
        assert!(!writes_through("pos:\t0\n"));
    }

    proptest! {
        #[test]
        fn every_call_is_read(number in 0i32.., arguments: [u64; 6], registers: [u64; 2]) {
            let rest = arguments.iter().chain(&registers);
            let rest: Vec<String> = rest.map(|value| format!("{value:#x}")).collect();
            let text = format!("{number} {}\n", rest.join(" "));
            let expected = Activity::Calling {
                number: number.into(),
                arguments: [arguments[0], arguments[1]],
            };
            prop_assert_eq!(parse_syscall(text.as_bytes()), Some(expected));
        }

        #[test]
        fn anything_is_read_or_refused(text: Vec<u8>) {
            let _ = parse_syscall(&text);
            let _ = state(&text);
            let _ = ran_ns(&text);
            stack(&String::from_utf8_lossy(&text), "a");
            writes_through(&String::from_utf8_lossy(&text));
        }

        #[test]
        fn every_state_is_found(name: Vec<u8>, letter in "[A-Za-z]", rest in "( -?[0-9]{1,9}){0,49}") {
            let text = [b"1 (", &name[..], b") ", letter.as_bytes(), rest.as_bytes()].concat();
            prop_assert_eq!(state(&text), letter.chars().next());
        }
    }
}
