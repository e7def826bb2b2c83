//! Telling where a JSON document ends before it is read.

/// Tells whether text so far is a complete JSON object. Each byte is looked at once.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    seen: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
    began: bool,
}

impl Scan {
    pub fn is_complete(&mut self, text: &[u8]) -> bool {
        for byte in text.get(self.seen..).unwrap_or_default() {
            match (self.in_string, byte) {
                (true, _) if self.escaped => self.escaped = false,
                (true, b'\\') => self.escaped = true,
                (true, b'"') => self.in_string = false,
                (true, _) => {}
                (false, b'"') => self.in_string = true,
                (false, b'{' | b'[') => {
                    self.depth += 1;
                    self.began = true;
                }
                (false, b'}' | b']') => self.depth = self.depth.saturating_sub(1),
                (false, _) => {}
            }
        }
        self.seen = text.len();
        self.began && self.depth == 0 && !self.in_string
    }
}
