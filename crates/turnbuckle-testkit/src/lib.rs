//! A fake model server and builders for tests.
