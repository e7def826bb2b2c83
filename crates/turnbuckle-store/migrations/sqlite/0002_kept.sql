-- Inputs below this number were there when the owner left for a pause; they are for after it.
ALTER TABLE sessions ADD COLUMN kept_below INTEGER NOT NULL DEFAULT 0;

-- "Always allow this": per person, in one session or in all.
CREATE TABLE allowances (
    ordinal INTEGER NOT NULL PRIMARY KEY,
    tenant  TEXT    NOT NULL,
    user    TEXT    NOT NULL,
    id      TEXT    NOT NULL,
    session TEXT    REFERENCES sessions (id) ON DELETE CASCADE,
    agent   TEXT    NOT NULL,
    tool    TEXT    NOT NULL,
    args    TEXT    NOT NULL,
    at      INTEGER NOT NULL
);
CREATE UNIQUE INDEX allowances_by_user ON allowances (tenant, user, coalesce(session, ''), agent, tool, args);
CREATE INDEX allowances_by_session ON allowances (session) WHERE session IS NOT NULL;
