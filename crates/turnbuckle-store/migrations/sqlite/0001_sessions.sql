-- Times are milliseconds since the Unix epoch. Bodies are JSON.

-- The small row every step rewrites; what is large or seldom changes lives elsewhere.
CREATE TABLE sessions (
    id           TEXT    NOT NULL PRIMARY KEY,
    tenant       TEXT    NOT NULL,
    user         TEXT    NOT NULL,
    agent        TEXT    NOT NULL,
    title        TEXT,
    title_folded TEXT,
    model        TEXT,
    created      INTEGER NOT NULL,
    updated      INTEGER NOT NULL,
    version      INTEGER NOT NULL DEFAULT 0,
    fence        INTEGER NOT NULL DEFAULT 0,
    owner        TEXT,
    lease_until  INTEGER NOT NULL DEFAULT -9223372036854775808,
    next_seq     INTEGER NOT NULL DEFAULT 1,
    next_n       INTEGER NOT NULL DEFAULT 0,
    next_input   INTEGER NOT NULL DEFAULT 1,
    status       TEXT    NOT NULL DEFAULT 'idle',
    turn         TEXT,
    pending      INTEGER NOT NULL DEFAULT 0,
    forked_from  TEXT
) WITHOUT ROWID;
CREATE INDEX sessions_by_tenant ON sessions (tenant, updated DESC, id DESC);
CREATE INDEX sessions_by_user ON sessions (tenant, user, updated DESC, id DESC);
CREATE INDEX sessions_by_owner ON sessions (owner) WHERE owner IS NOT NULL;
CREATE INDEX sessions_wanting ON sessions (lease_until) WHERE pending > 0 OR status = 'running';

-- Ids of deleted sessions are never given out again: a late writer must not meet a stranger's session.
CREATE TABLE deleted_sessions (
    id TEXT NOT NULL PRIMARY KEY
) WITHOUT ROWID;

CREATE TABLE session_states (
    session TEXT NOT NULL PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
    state   TEXT NOT NULL
);

CREATE TABLE turns (
    ordinal  INTEGER NOT NULL PRIMARY KEY,
    session  TEXT    NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    id       TEXT    NOT NULL,
    spec     TEXT    NOT NULL,
    status   TEXT    NOT NULL,
    outcome  TEXT,
    started  INTEGER NOT NULL,
    ended    INTEGER,
    -- The turn's steps lie between these event numbers, both included.
    since    INTEGER NOT NULL,
    until    INTEGER,
    UNIQUE (session, id)
);

-- One row per commit: the journal entries and the events it added, as JSON arrays.
CREATE TABLE steps (
    ordinal  INTEGER NOT NULL PRIMARY KEY,
    session  TEXT    NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    turn     TEXT,
    last_seq INTEGER NOT NULL,
    journal  TEXT,
    events   TEXT
);
CREATE INDEX steps_in_order ON steps (session, last_seq);

CREATE TABLE messages (
    ordinal  INTEGER NOT NULL PRIMARY KEY,
    session  TEXT    NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    id       TEXT    NOT NULL,
    turn     TEXT    NOT NULL,
    role     TEXT    NOT NULL,
    body     TEXT    NOT NULL,
    UNIQUE (session, position),
    UNIQUE (session, id)
);

-- Where to find a card; its body is its message.
CREATE TABLE cards (
    id         TEXT    NOT NULL PRIMARY KEY,
    session    TEXT    NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    tenant     TEXT    NOT NULL,
    turn       TEXT    NOT NULL,
    call       TEXT    NOT NULL,
    asks       TEXT    NOT NULL,
    status     TEXT    NOT NULL,
    at         INTEGER NOT NULL,
    expires_at INTEGER
) WITHOUT ROWID;
CREATE INDEX cards_by_session ON cards (session, at, id);
CREATE INDEX cards_by_tenant ON cards (tenant, at, id);
CREATE INDEX cards_by_status ON cards (tenant, status, at, id);
CREATE INDEX cards_expiring ON cards (expires_at) WHERE status = 'pending' AND expires_at IS NOT NULL;

CREATE TABLE captured (
    session  TEXT    NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    turn     TEXT    NOT NULL,
    number   INTEGER NOT NULL,
    revision INTEGER NOT NULL DEFAULT 1,
    action   TEXT    NOT NULL,
    status   TEXT    NOT NULL,
    result   TEXT,
    PRIMARY KEY (session, turn, number)
);

CREATE TABLE inbox (
    session  TEXT    NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    n        INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    key      TEXT,
    card     TEXT,
    input    TEXT    NOT NULL,
    consumed INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (session, n)
);
CREATE UNIQUE INDEX inbox_keys ON inbox (session, key) WHERE key IS NOT NULL;
CREATE UNIQUE INDEX inbox_answers ON inbox (session, card) WHERE card IS NOT NULL;
CREATE INDEX inbox_waiting ON inbox (session, n) WHERE consumed = 0;

CREATE TABLE blobs (
    session    TEXT    NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    id         TEXT    NOT NULL,
    media_type TEXT    NOT NULL,
    size       INTEGER NOT NULL,
    PRIMARY KEY (session, id)
);

-- Cut into pieces, so that reading a range costs the range.
CREATE TABLE blob_pieces (
    session TEXT    NOT NULL,
    blob    TEXT    NOT NULL,
    piece   INTEGER NOT NULL,
    content BLOB    NOT NULL,
    PRIMARY KEY (session, blob, piece),
    FOREIGN KEY (session, blob) REFERENCES blobs (session, id) ON DELETE CASCADE
);

-- The door through which every step goes: one statement that checks the step against the session's row, moves the row on and
-- adds the step. A step that does not fit sets the fence to NULL, which the column refuses, and so changes nothing.
-- `expects` says which turn must be open: 'any', 'none' (the step opens `turn`), 'some', or 'this' (`turn`).
CREATE VIEW step_in AS
SELECT NULL AS session, NULL AS tenant, NULL AS fence, NULL AS expects, NULL AS turn,
       NULL AS first_seq, 0 AS added_events, NULL AS first_n, 0 AS added_entries, NULL AS journal, NULL AS events
WHERE 0;
CREATE TRIGGER step_in_insert INSTEAD OF INSERT ON step_in BEGIN
    UPDATE sessions SET
        fence = CASE
            WHEN fence = NEW.fence AND tenant = NEW.tenant AND owner IS NOT NULL
                AND (NEW.first_seq IS NULL OR next_seq = NEW.first_seq)
                AND (NEW.first_n IS NULL OR next_n = NEW.first_n)
                AND CASE NEW.expects
                    WHEN 'any' THEN 1
                    WHEN 'none' THEN turn IS NULL
                    WHEN 'some' THEN turn IS NOT NULL
                    ELSE turn = NEW.turn
                END
            THEN fence
        END,
        version = version + 1,
        next_seq = next_seq + NEW.added_events,
        turn = CASE NEW.expects WHEN 'none' THEN NEW.turn ELSE turn END,
        next_n = CASE NEW.expects WHEN 'none' THEN 0 ELSE next_n END + NEW.added_entries
    WHERE id = NEW.session;
    INSERT INTO steps (session, turn, last_seq, journal, events)
    SELECT id, turn, next_seq - 1, NEW.journal, NEW.events FROM sessions
    WHERE id = NEW.session AND coalesce(NEW.journal, NEW.events) IS NOT NULL;
END;
