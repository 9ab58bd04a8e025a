//! sysbench's options for parameters of a workload: `--range-size=10` is `--set range_size=10`.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};

use clap::Command;

use crate::builtin;

/// Parameters whose names differ in sysbench.
const OTHER_NAMES: [(&str, &str); 4] = [
    ("rand_pareto_h", "pareto_h"),
    ("rand_spec_pct", "special_percent"),
    ("rand_spec_res", "special_share"),
    ("rand_zipfian_exp", "zipf_exponent"),
];

/// Return the arguments of the program, with such options of `bench` as it knows them. What is
/// neither an option of `bench` nor a parameter of any workload is left as it is.
pub fn with_parameters(
    program: &Command,
    arguments: impl IntoIterator<Item = OsString>,
) -> Vec<OsString> {
    let mut translated: Vec<OsString> = Vec::new();
    let mut rest = arguments.into_iter().peekable();
    translated.extend(rest.next());
    while let Some(argument) = rest.next_if(|argument| is_option(argument)) {
        translated.push(argument);
    }
    let Some(bench) = rest
        .peek()
        .filter(|command| *command == "bench")
        .and_then(|_| program.find_subcommand("bench"))
    else {
        translated.extend(rest);
        return translated;
    };
    let (known, parameters) = (options_of(bench), parameters());
    while let Some(argument) = rest.next() {
        let found = argument.to_str().and_then(|text| {
            let (option, value) = parts(text)?;
            let name = own_name(option);
            let switch = parameters.get(&name).filter(|_| !known.contains(option))?;
            Some((name, switch.as_ref(), value.map(OsString::from)))
        });
        let Some((name, switch, value)) = found else {
            translated.push(argument);
            continue;
        };
        let value = value
            .or_else(|| rest.next_if(|next| is_value(next, switch)))
            .or_else(|| switch.map(|_| "on".into()));
        match value {
            Some(value) => {
                let mut assignment = OsString::from(format!("{name}="));
                assignment.push(value);
                translated.extend(["--set".into(), assignment]);
            }
            None => translated.push(argument),
        }
    }
    translated
}

/// Return the parameter that an option stands for.
fn own_name(option: &str) -> String {
    let name = option.replace('-', "_");
    let other = OTHER_NAMES.iter().find(|(theirs, _)| *theirs == name);
    other.map_or(name, |(_, ours)| (*ours).to_owned())
}

/// Return the name and the value of `--name` or `--name=value`.
fn parts(argument: &str) -> Option<(&str, Option<&str>)> {
    let option = argument.strip_prefix("--")?;
    Some(match option.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (option, None),
    })
}

fn is_option(argument: &OsStr) -> bool {
    argument.as_encoded_bytes().starts_with(b"-")
}

/// Return whether an argument is the value of the option before it; a switch takes only its own.
fn is_value(argument: &OsStr, switch: Option<&Switch>) -> bool {
    match switch {
        Some(offered) => offered.iter().any(|value| argument == value.as_str()),
        None => !is_option(argument),
    }
}

/// The values of a parameter that is on or off, and maybe something else.
type Switch = Vec<String>;

fn options_of(command: &Command) -> BTreeSet<&str> {
    command
        .get_arguments()
        .flat_map(|argument| {
            let aliases = argument.get_all_aliases().unwrap_or_default();
            argument.get_long().into_iter().chain(aliases)
        })
        .collect()
}

/// Return the parameters of all workloads, and the values of those that are switches.
fn parameters() -> BTreeMap<String, Option<Switch>> {
    builtin::all()
        .into_iter()
        .flat_map(|builtin| builtin.variables)
        .map(|(name, variable)| (name, variable.switch()))
        .collect()
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command};

    use super::*;

    fn translated(arguments: &str) -> String {
        let bench = Command::new("bench").args([
            Arg::new("set").long("set"),
            Arg::new("threads").long("threads").visible_alias("tables"),
        ]);
        let program = Command::new("millrace-load").subcommand(bench);
        let arguments = arguments.split(' ').map(OsString::from);
        let translated = with_parameters(&program, arguments);
        let words: Vec<_> = translated.iter().map(|word| word.to_str().unwrap()).collect();
        words.join(" ")
    }

    #[test]
    fn parameters_are_set_by_sysbenchs_options() {
        for (said, meant) in [
            ("l bench --range-size=10", "l bench --set range_size=10"),
            ("l bench run --range_size 10", "l bench run --set range_size=10"),
            ("l -d bench --point-selects=1", "l -d bench --set point_selects=1"),
            (
                "l bench --rand-zipfian-exp=0.9 --rand-pareto-h=0.3",
                "l bench --set zipf_exponent=0.9 --set pareto_h=0.3",
            ),
            (
                "l bench --rand-spec-pct=2 --rand-spec-res=80",
                "l bench --set special_percent=2 --set special_share=80",
            ),
            ("l bench --create-secondary before run", "l bench --set create_secondary=before run"),
            ("l bench --create-secondary prepare", "l bench --set create_secondary=on prepare"),
            ("l bench --skip-trx=off", "l bench --set skip_trx=off"),
            ("l bench --skip-trx off", "l bench --set skip_trx=off"),
            ("l bench --skip-trx run", "l bench --set skip_trx=on run"),
            ("l bench --skip-trx", "l bench --set skip_trx=on"),
        ] {
            assert_eq!(translated(said), meant);
        }
    }

    #[test]
    fn all_else_is_left_as_it_is() {
        for said in [
            "l",
            "l bench --no-such-thing=3 --threads 2",
            "l bench --tables=3",
            "l bench --range-size",
            "l bench --range-size --threads 2",
            "l run --range-size=10",
        ] {
            assert_eq!(translated(said), said);
        }
    }
}
