-- One row that is written to learn whether anything can be.
CREATE TABLE probe (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 0),
    at INTEGER NOT NULL
);
