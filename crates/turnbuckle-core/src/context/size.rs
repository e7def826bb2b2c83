//! How large a value is: serialized bytes, without serializing it into memory, and its depth.

use serde::Serialize;
use serde_json::Value;
use std::io;

/// Deepest value that is kept. JSON readers stop at 128 levels, and a snapshot adds a few.
pub(super) const MAX_DEPTH: usize = 100;

/// Bytes of the value as compact JSON.
pub(super) fn json_len(value: &(impl Serialize + ?Sized)) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Neither JSON values and strings nor the counter can fail.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

/// Levels of arrays and objects; 0 for a leaf.
pub(super) fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}
