//! Sessions, journals, events and cards on disk or in memory.
