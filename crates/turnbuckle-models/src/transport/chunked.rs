//! The chunked transfer coding (RFC 9112, section 7.1), read as it comes.
//!
//! A streamed answer is hundreds of chunks of a few hundred bytes, so what a chunk costs beside its bytes is most of what
//! reading costs. This reader keeps no bytes: where a read ends within a frame, the place in the frame is all there is to
//! remember.

/// The longest line of a chunk's size with its extensions, and the most bytes of trailer fields.
const LONGEST: u32 = 8 * 1024;

/// Where in the coding the next byte stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The digits of a size, with what they say so far.
    Size {
        value: u64,
        digits: u8,
    },
    /// Extensions, which are passed over.
    Extension {
        size: u64,
    },
    /// The line feed after a size.
    SizeEnd {
        size: u64,
    },
    /// Bytes of the body, and how many of this chunk are still to come.
    Data {
        left: u64,
    },
    /// The carriage return after a chunk, and the line feed.
    DataReturn,
    DataEnd,
    /// The beginning of a line after the last chunk: a trailer field, or the empty line that ends all.
    Trailer,
    TrailerField,
    TrailerFieldEnd,
    TrailerEnd,
    Ended,
}

/// What does not follow the coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server's chunked answer is malformed: {0}")]
pub(super) struct Malformed(&'static str);

/// Reads one body.
#[derive(Debug)]
pub(super) struct Chunked {
    place: Place,
    /// Bytes of the line or the trailer at hand.
    seen: u32,
}

impl Chunked {
    pub(super) const fn new() -> Self {
        Self { place: Place::Size { value: 0, digits: 0 }, seen: 0 }
    }

    /// Whether the body is whole.
    pub(super) fn is_ended(&self) -> bool {
        self.place == Place::Ended
    }

    /// Whether the last chunk has come, so that nothing of the body is missing, though the trailer may be. Some servers close
    /// the connection there.
    pub(super) fn had_last(&self) -> bool {
        matches!(
            self.place,
            Place::Trailer
                | Place::TrailerField
                | Place::TrailerFieldEnd
                | Place::TrailerEnd
                | Place::Ended
        )
    }

    /// Takes bytes as they came, and adds what they hold of the body. Gives back what stands behind the body's end.
    ///
    /// # Errors
    /// When the bytes do not follow the coding.
    pub(super) fn read<'i>(
        &mut self,
        mut input: &'i [u8],
        body: &mut Vec<u8>,
    ) -> Result<&'i [u8], Malformed> {
        loop {
            if let Place::Data { left } = self.place {
                let here = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
                let (data, rest) = input.split_at_checked(here).unwrap_or((input, &[]));
                body.extend_from_slice(data);
                input = rest;
                let left = left - here as u64;
                self.place = if left > 0 { Place::Data { left } } else { Place::DataReturn };
            }
            if self.place == Place::Ended {
                return Ok(input);
            }
            let Some((byte, rest)) = input.split_first() else { return Ok(input) };
            input = rest;
            self.place = self.after(*byte)?;
        }
    }

    /// The place behind a byte that is not of the body.
    fn after(&mut self, byte: u8) -> Result<Place, Malformed> {
        self.seen += 1;
        if self.seen > LONGEST {
            return Err(Malformed("a chunk's size or the trailer is too long"));
        }
        match (self.place, byte) {
            (Place::Size { value, digits }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                // 16 digits are 64 bits.
                if digits >= 16 {
                    return Err(Malformed("the size of a chunk is too large"));
                }
                let digit = char::from(byte).to_digit(16).unwrap_or_default();
                Ok(Place::Size { value: value << 4 | u64::from(digit), digits: digits + 1 })
            }
            (Place::Size { digits: 0, .. }, _) => Err(Malformed("the size of a chunk is missing")),
            (Place::Size { value: size, .. } | Place::Extension { size }, b'\r') => {
                Ok(Place::SizeEnd { size })
            }
            (Place::Size { value: size, .. }, b';' | b' ' | b'\t') => Ok(Place::Extension { size }),
            (Place::Size { .. }, _) => Err(Malformed("the size of a chunk is not a number")),
            (Place::Extension { size }, _) => Ok(Place::Extension { size }),
            (Place::SizeEnd { size: 0 }, b'\n') => Ok(Place::Trailer),
            (Place::SizeEnd { size: left }, b'\n') => {
                self.seen = 0;
                Ok(Place::Data { left })
            }
            (Place::DataReturn, b'\r') => Ok(Place::DataEnd),
            (Place::DataEnd, b'\n') => Ok(Place::Size { value: 0, digits: 0 }),
            (Place::DataReturn | Place::DataEnd, _) => {
                Err(Malformed("a chunk is longer than its size"))
            }
            (Place::Trailer, b'\r') => Ok(Place::TrailerEnd),
            (Place::TrailerField, b'\r') => Ok(Place::TrailerFieldEnd),
            (Place::Trailer | Place::TrailerField, _) => Ok(Place::TrailerField),
            (Place::TrailerFieldEnd, b'\n') => Ok(Place::Trailer),
            (Place::TrailerEnd, b'\n') => Ok(Place::Ended),
            (Place::SizeEnd { .. } | Place::TrailerFieldEnd | Place::TrailerEnd, _) => {
                Err(Malformed("a carriage return without a line feed"))
            }
            // Both are dealt with before a byte is taken.
            (place @ (Place::Data { .. } | Place::Ended), _) => Ok(place),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(pieces: &[&[u8]]) -> Result<(Vec<u8>, Vec<u8>, bool), Malformed> {
        let (mut chunked, mut body, mut behind) = (Chunked::new(), Vec::new(), Vec::new());
        for piece in pieces {
            behind.extend_from_slice(chunked.read(piece, &mut body)?);
        }
        Ok((body, behind, chunked.is_ended()))
    }

    #[test]
    fn sizes_extensions_and_trailers_are_not_of_the_body() {
        let coded = b"4\r\nWiki\r\n6;name=\"v\"\r\npedia \r\nE \r\nin \r\n\r\nchunks.\r\n0\r\nExpires: never\r\nX: y\r\n\r\nHTTP";
        let (body, behind, ended) = read(&[coded]).unwrap();
        assert_eq!(body, b"Wikipedia in \r\n\r\nchunks.");
        assert_eq!((behind.as_slice(), ended), (b"HTTP".as_slice(), true));
    }

    #[test]
    fn what_is_cut_has_not_ended() {
        let coded = b"3\r\nabc\r\n0\r\n\r\n";
        for cut in 0..coded.len() {
            let (body, _, ended) = read(&[&coded[..cut]]).unwrap();
            assert!(!ended && b"abc".starts_with(&body), "{cut}");
            let mut chunked = Chunked::new();
            chunked.read(&coded[..cut], &mut Vec::new()).unwrap();
            assert_eq!(chunked.had_last(), cut >= b"3\r\nabc\r\n0\r\n".len(), "{cut}");
        }
    }

    #[test]
    fn what_does_not_follow_the_coding_is_refused() {
        for (coded, why) in [
            (b"\r\n".as_slice(), "missing"),
            (b"x\r\n", "missing"),
            (b"4q\r\n", "not a number"),
            (b"4\r\nWikip", "longer than its size"),
            (b"4\r\nWiki\rx", "longer than its size"),
            (b"4\rx", "without a line feed"),
            (b"0\r\nA: b\rx", "without a line feed"),
            (b"0\r\n\rx", "without a line feed"),
            (b"11111111111111111\r\n", "too large"),
        ] {
            let error = read(&[coded]).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        let endless = [b"1;".to_vec(), vec![b'x'; LONGEST as usize]].concat();
        assert!(read(&[&endless]).is_err());
        let endless = [b"0\r\n".to_vec(), vec![b'x'; LONGEST as usize]].concat();
        assert!(read(&[&endless]).is_err());
    }

    proptest! {
        #[test]
        fn however_it_is_cut_it_reads_alike(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..60), 0..8),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let mut coded = Vec::new();
            for chunk in &chunks {
                coded.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                coded.extend_from_slice(chunk);
                coded.extend_from_slice(b"\r\n");
            }
            coded.extend_from_slice(b"0\r\n\r\nmore");
            let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(coded.len())).collect();
            places.extend([0, coded.len()]);
            places.sort_unstable();
            let pieces: Vec<&[u8]> = places.windows(2).map(|w| &coded[w[0]..w[1]]).collect();
            let (body, behind, ended) = read(&pieces).unwrap();
            prop_assert_eq!(body, chunks.concat());
            prop_assert_eq!(behind, b"more");
            prop_assert!(ended);
        }

        #[test]
        fn nothing_makes_it_panic(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6)) {
            let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            let _ = read(&pieces);
        }
    }
}
