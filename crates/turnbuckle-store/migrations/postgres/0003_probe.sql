-- One row that is written to learn whether anything can be.
CREATE TABLE probe (
    id BIGINT NOT NULL PRIMARY KEY CHECK (id = 0),
    at BIGINT NOT NULL
);
