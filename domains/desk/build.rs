//! Migrations are compiled in; a changed one must be noticed.

fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
