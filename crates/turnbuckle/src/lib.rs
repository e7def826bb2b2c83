//! An agent engine for products: it streams, runs tools, stops for people and survives crashes.
