//! The `turnbuckle` binary.

fn main() {}
