-- Times are milliseconds since the Unix epoch.

CREATE TABLE api_keys (
    id         TEXT    NOT NULL PRIMARY KEY,
    hash       BYTEA   NOT NULL UNIQUE,
    tenant     TEXT    NOT NULL,
    user_id    TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    -- A JSON array.
    roles      TEXT    NOT NULL,
    created    BIGINT  NOT NULL,
    expires_at BIGINT,
    revoked_at BIGINT
);
CREATE INDEX api_keys_by_tenant ON api_keys (tenant, created, id);

-- Who decided what. Nothing is ever changed in it.
CREATE TABLE audit_log (
    tenant  TEXT   NOT NULL,
    n       BIGINT NOT NULL,
    at      BIGINT NOT NULL,
    user_id TEXT   NOT NULL,
    api_key TEXT,
    action  TEXT   NOT NULL,
    subject TEXT   NOT NULL,
    session TEXT,
    detail  TEXT   NOT NULL,
    request TEXT   NOT NULL,
    PRIMARY KEY (tenant, n)
);
CREATE INDEX audit_log_by_session ON audit_log (tenant, session, n) WHERE session IS NOT NULL;
