//! The tool attribute.
