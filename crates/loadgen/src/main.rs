mod data;
fn main() { }
