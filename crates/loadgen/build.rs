//! Lists the workload files that ship with millrace, so that the program carries them with it.

use std::env;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

const WORKLOADS: &str = "../../src/millrace/workloads/builtin";

fn main() {
    println!("cargo::rerun-if-changed={WORKLOADS}");
    let directory =
        Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join(WORKLOADS);
    let mut files: Vec<PathBuf> = fs::read_dir(&directory)
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()))
        .map(|entry| entry.expect("a directory that was opened can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    let mut list = String::from("[\n");
    for file in &files {
        writeln!(list, "    include_str!({:?}),", file.display().to_string())
            .expect("a string takes everything");
    }
    list.push_str("]\n");
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("workload_files.rs");
    fs::write(&out, list).unwrap_or_else(|error| panic!("{}: {error}", out.display()));
}
