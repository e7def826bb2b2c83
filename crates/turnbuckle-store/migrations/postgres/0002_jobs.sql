-- Work that is done once, some time, by any worker. `wake` is when somebody has to look at it: when a waiting job is due, when
-- the lease of a running one runs out.
CREATE TABLE jobs (
    tenant       text COLLATE "C" NOT NULL,
    id           text COLLATE "C" NOT NULL,
    queue        text COLLATE "C" NOT NULL,
    key          text COLLATE "C",
    payload      text NOT NULL,
    status       text COLLATE "C" NOT NULL DEFAULT 'waiting',
    due          bigint NOT NULL,
    wake         bigint,
    attempts     bigint NOT NULL DEFAULT 0,
    max_attempts bigint NOT NULL,
    fence        bigint NOT NULL DEFAULT 0,
    owner        text COLLATE "C",
    error        text,
    result       text,
    created      bigint NOT NULL,
    ended        bigint,
    schedule     text COLLATE "C",
    tick         bigint,
    PRIMARY KEY (tenant, id)
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX jobs_keys ON jobs (tenant, queue, key) WHERE key IS NOT NULL;
-- One moment of a schedule, one job, over all replicas.
CREATE UNIQUE INDEX jobs_ticks ON jobs (tenant, schedule, tick) WHERE schedule IS NOT NULL;
CREATE INDEX jobs_waking ON jobs (wake, tenant, id) WHERE wake IS NOT NULL;
CREATE INDEX jobs_by_tenant ON jobs (tenant, created DESC, id DESC);
CREATE INDEX jobs_dead ON jobs (tenant, created DESC, id DESC) WHERE status = 'dead';
CREATE INDEX jobs_over ON jobs (ended) WHERE status IN ('done', 'cancelled');

CREATE TABLE schedules (
    tenant       text COLLATE "C" NOT NULL,
    id           text COLLATE "C" NOT NULL,
    cron         text NOT NULL,
    queue        text COLLATE "C" NOT NULL,
    payload      text NOT NULL,
    max_attempts bigint NOT NULL,
    missed       text NOT NULL,
    state        text COLLATE "C" NOT NULL,
    next         bigint,
    last         bigint,
    revision     bigint NOT NULL DEFAULT 1,
    created      bigint NOT NULL,
    updated      bigint NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX schedules_due ON schedules (next, tenant, id) WHERE next IS NOT NULL;

-- Tells a session that a task of it ended. `outcome` is `missing`, `nothing`, `busy`, or what `post_input` says.
CREATE FUNCTION notify_task(
    p_tenant text, p_kind text, p_reference text, p_session text, p_now bigint, p_key text, p_input text,
    OUT outcome text, OUT r_n bigint, OUT r_at bigint, OUT r_input text
) LANGUAGE plpgsql AS $$
DECLARE
    idle boolean;
    told boolean;
BEGIN
    -- Once the row is held, nobody posts, claims or commits.
    SELECT s.turn IS NULL AND s.pending = 0 AND s.parked IS NULL INTO idle
    FROM sessions s WHERE s.id = p_session AND s.tenant = p_tenant FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        outcome := 'missing';
        RETURN;
    END IF;
    SELECT t.ended IS NULL OR t.notified IS NOT NULL INTO told FROM tasks t
    WHERE t.tenant = p_tenant AND t.kind = p_kind AND t.reference = p_reference AND t.session = p_session FOR UPDATE;
    IF NOT FOUND THEN
        outcome := 'missing';
    ELSIF told THEN
        outcome := 'nothing';
    ELSIF NOT idle THEN
        outcome := 'busy';
    ELSE
        SELECT x.outcome, x.r_n, x.r_at, x.r_input INTO outcome, r_n, r_at, r_input
        FROM post_input(p_session, p_tenant, p_now, p_key, NULL, p_input) x;
        UPDATE tasks t SET notified = p_now
        WHERE t.tenant = p_tenant AND t.kind = p_kind AND t.reference = p_reference;
    END IF;
END $$;
