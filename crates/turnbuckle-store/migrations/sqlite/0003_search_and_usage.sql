-- Why a session is set aside, and since when.
ALTER TABLE sessions ADD COLUMN parked TEXT;
ALTER TABLE sessions ADD COLUMN parked_at INTEGER;
DROP INDEX sessions_wanting;
CREATE INDEX sessions_wanting ON sessions (lease_until) WHERE (pending > 0 OR status = 'running') AND parked IS NULL;
CREATE INDEX sessions_parked ON sessions (id) WHERE parked IS NOT NULL;

-- Captured actions can be listed over the sessions of a tenant.
ALTER TABLE captured ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
ALTER TABLE captured ADD COLUMN at INTEGER NOT NULL DEFAULT 0;
UPDATE captured SET tenant = (SELECT tenant FROM sessions WHERE id = session),
                    at = (SELECT updated FROM sessions WHERE id = session);
CREATE INDEX captured_by_tenant ON captured (tenant, at, session, turn, number);
CREATE INDEX captured_by_status ON captured (tenant, status, at, session, turn, number);

-- The words of messages, by the message's ordinal; only the index, since the text is in the message.
CREATE VIRTUAL TABLE message_words USING fts5 (words, content = '', contentless_delete = 1, tokenize = 'ascii');

-- What model calls cost, one row per call. It outlives the session.
CREATE TABLE usage (
    ordinal     INTEGER NOT NULL PRIMARY KEY,
    tenant      TEXT    NOT NULL,
    user        TEXT    NOT NULL,
    session     TEXT    NOT NULL,
    turn        TEXT    NOT NULL,
    agent       TEXT    NOT NULL,
    model       TEXT    NOT NULL,
    at          INTEGER NOT NULL,
    input       INTEGER NOT NULL,
    cache_read  INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    output      INTEGER NOT NULL,
    reasoning   INTEGER NOT NULL,
    cost_micros INTEGER NOT NULL
);
CREATE INDEX usage_by_tenant ON usage (tenant, at);
CREATE INDEX usage_by_user ON usage (tenant, user, at);
