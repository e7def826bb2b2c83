-- What tools started and did not wait for. `place` orders those that were started at the same moment.
CREATE TABLE tasks (
    tenant    TEXT    NOT NULL,
    kind      TEXT    NOT NULL,
    reference TEXT    NOT NULL,
    place     TEXT    NOT NULL,
    session   TEXT    NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    turn      TEXT    NOT NULL,
    call      TEXT    NOT NULL,
    status    TEXT    NOT NULL,
    detail    TEXT    NOT NULL DEFAULT 'null',
    started   INTEGER NOT NULL,
    ended     INTEGER,
    notified  INTEGER,
    PRIMARY KEY (tenant, kind, reference)
) WITHOUT ROWID;
CREATE INDEX tasks_by_session ON tasks (session, started);
CREATE INDEX tasks_by_tenant ON tasks (tenant, started DESC, place DESC);
CREATE INDEX tasks_untold ON tasks (ended) WHERE ended IS NOT NULL AND notified IS NULL;

-- Work that is done once, some time, by any worker. `wake` is when somebody has to look at it: when a waiting job is due, when
-- the lease of a running one runs out.
CREATE TABLE jobs (
    tenant       TEXT    NOT NULL,
    id           TEXT    NOT NULL,
    queue        TEXT    NOT NULL,
    key          TEXT,
    payload      TEXT    NOT NULL,
    status       TEXT    NOT NULL DEFAULT 'waiting',
    due          INTEGER NOT NULL,
    wake         INTEGER,
    attempts     INTEGER NOT NULL DEFAULT 0,
    max_attempts INTEGER NOT NULL,
    fence        INTEGER NOT NULL DEFAULT 0,
    owner        TEXT,
    error        TEXT,
    result       TEXT,
    created      INTEGER NOT NULL,
    ended        INTEGER,
    schedule     TEXT,
    tick         INTEGER,
    PRIMARY KEY (tenant, id)
) WITHOUT ROWID;
CREATE UNIQUE INDEX jobs_keys ON jobs (tenant, queue, key) WHERE key IS NOT NULL;
-- One moment of a schedule, one job, over all replicas.
CREATE UNIQUE INDEX jobs_ticks ON jobs (tenant, schedule, tick) WHERE schedule IS NOT NULL;
CREATE INDEX jobs_waking ON jobs (wake, tenant, id) WHERE wake IS NOT NULL;
CREATE INDEX jobs_by_tenant ON jobs (tenant, created DESC, id DESC);
CREATE INDEX jobs_dead ON jobs (tenant, created DESC, id DESC) WHERE status = 'dead';
CREATE INDEX jobs_over ON jobs (ended) WHERE status IN ('done', 'cancelled');

CREATE TABLE schedules (
    tenant       TEXT    NOT NULL,
    id           TEXT    NOT NULL,
    cron         TEXT    NOT NULL,
    queue        TEXT    NOT NULL,
    payload      TEXT    NOT NULL,
    max_attempts INTEGER NOT NULL,
    missed       TEXT    NOT NULL,
    state        TEXT    NOT NULL,
    next         INTEGER,
    last         INTEGER,
    revision     INTEGER NOT NULL DEFAULT 1,
    created      INTEGER NOT NULL,
    updated      INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) WITHOUT ROWID;
CREATE INDEX schedules_due ON schedules (next, tenant, id) WHERE next IS NOT NULL;
