//! The `turnbuckle` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    turnbuckle_cli::main()
}
