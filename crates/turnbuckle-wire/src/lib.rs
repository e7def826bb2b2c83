//! Codecs without I/O: requests to a vendor's bytes, streams back to blocks.
