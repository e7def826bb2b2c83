-- Times are milliseconds since the Unix epoch. Bodies are JSON as text; what is opaque to the store and may hold any character
-- is bytea. Ids are compared byte by byte, whatever the database's collation is.
--
-- There are no foreign keys to sessions: whoever writes holds the session's row, and deleting one is a function.

-- The small row every step rewrites, with room on its page, so that no index is touched; what is large lives elsewhere.
CREATE TABLE sessions (
    id            text COLLATE "C" NOT NULL PRIMARY KEY,
    tenant        text COLLATE "C" NOT NULL,
    person        text COLLATE "C" NOT NULL,
    agent         text COLLATE "C" NOT NULL,
    title         text,
    title_folded  text COLLATE "C",
    model         text COLLATE "C",
    created       bigint NOT NULL,
    updated       bigint NOT NULL,
    version       bigint NOT NULL DEFAULT 0,
    fence         bigint NOT NULL DEFAULT 0,
    owner         text COLLATE "C",
    lease_until   bigint NOT NULL DEFAULT -9223372036854775808,
    next_seq      bigint NOT NULL DEFAULT 1,
    next_n        bigint NOT NULL DEFAULT 0,
    next_input    bigint NOT NULL DEFAULT 1,
    next_position integer NOT NULL DEFAULT 0,
    status        text COLLATE "C" NOT NULL DEFAULT 'idle',
    turn          text COLLATE "C",
    pending       bigint NOT NULL DEFAULT 0,
    kept_below    bigint NOT NULL DEFAULT 0,
    forked_from   text COLLATE "C",
    parked        text,
    parked_at     bigint
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX sessions_by_tenant ON sessions (tenant, updated DESC, id DESC);
CREATE INDEX sessions_by_person ON sessions (tenant, person, updated DESC, id DESC);
CREATE INDEX sessions_by_owner ON sessions (owner) WHERE owner IS NOT NULL;
CREATE INDEX sessions_wanting ON sessions (lease_until) WHERE (pending > 0 OR status = 'running') AND parked IS NULL;
CREATE INDEX sessions_parked ON sessions (id) WHERE parked IS NOT NULL;

-- Ids of deleted sessions are never given out again: a late writer must not meet a stranger's session.
CREATE TABLE deleted_sessions (
    id text COLLATE "C" NOT NULL PRIMARY KEY
);

CREATE TABLE session_states (
    session text COLLATE "C" NOT NULL PRIMARY KEY,
    state   bytea NOT NULL
);

CREATE TABLE turns (
    session text COLLATE "C" NOT NULL,
    id      text COLLATE "C" NOT NULL,
    ordinal bigint GENERATED ALWAYS AS IDENTITY,
    spec    bytea NOT NULL,
    status  text COLLATE "C" NOT NULL,
    outcome text,
    started bigint NOT NULL,
    ended   bigint,
    -- The turn's steps lie between these event numbers, both included.
    since   bigint NOT NULL,
    until   bigint,
    PRIMARY KEY (session, id)
);

-- One row per commit: the journal entries and the events it added, as JSON arrays.
CREATE TABLE steps (
    session  text COLLATE "C" NOT NULL,
    last_seq bigint NOT NULL,
    version  bigint NOT NULL,
    turn     text COLLATE "C",
    journal  text,
    events   text,
    PRIMARY KEY (session, last_seq, version)
);

CREATE TABLE messages (
    session  text COLLATE "C" NOT NULL,
    position integer NOT NULL,
    id       text COLLATE "C" NOT NULL,
    turn     text COLLATE "C" NOT NULL,
    role     text COLLATE "C" NOT NULL,
    body     text NOT NULL,
    -- What a search finds it by, the tenant's own word included.
    words    tsvector,
    PRIMARY KEY (session, position),
    UNIQUE (session, id)
);
CREATE INDEX messages_by_word ON messages USING gin (words);

-- Where to find a card; its body is its message.
CREATE TABLE cards (
    id         text COLLATE "C" NOT NULL PRIMARY KEY,
    session    text COLLATE "C" NOT NULL,
    tenant     text COLLATE "C" NOT NULL,
    turn       text COLLATE "C" NOT NULL,
    call       text COLLATE "C" NOT NULL,
    asks       text COLLATE "C" NOT NULL,
    status     text COLLATE "C" NOT NULL,
    at         bigint NOT NULL,
    expires_at bigint
);
CREATE INDEX cards_by_session ON cards (session, at, id);
CREATE INDEX cards_by_tenant ON cards (tenant, at, id);
CREATE INDEX cards_by_status ON cards (tenant, status, at, id);
CREATE INDEX cards_expiring ON cards (expires_at) WHERE status = 'pending' AND expires_at IS NOT NULL;

CREATE TABLE captured (
    session  text COLLATE "C" NOT NULL,
    turn     text COLLATE "C" NOT NULL,
    number   integer NOT NULL,
    tenant   text COLLATE "C" NOT NULL,
    at       bigint NOT NULL,
    revision bigint NOT NULL DEFAULT 1,
    action   text NOT NULL,
    status   text COLLATE "C" NOT NULL,
    result   text,
    PRIMARY KEY (session, turn, number)
);
CREATE INDEX captured_by_tenant ON captured (tenant, at, session, turn, number);
CREATE INDEX captured_by_status ON captured (tenant, status, at, session, turn, number);

CREATE TABLE inbox (
    session  text COLLATE "C" NOT NULL,
    n        bigint NOT NULL,
    at       bigint NOT NULL,
    key      text COLLATE "C",
    card     text COLLATE "C",
    input    text NOT NULL,
    consumed boolean NOT NULL DEFAULT false,
    PRIMARY KEY (session, n)
);
CREATE UNIQUE INDEX inbox_keys ON inbox (session, key) WHERE key IS NOT NULL;
CREATE UNIQUE INDEX inbox_answers ON inbox (session, card) WHERE card IS NOT NULL;
CREATE INDEX inbox_waiting ON inbox (session, n) WHERE NOT consumed;

CREATE TABLE blobs (
    session    text COLLATE "C" NOT NULL,
    id         text COLLATE "C" NOT NULL,
    media_type text NOT NULL,
    size       bigint NOT NULL,
    PRIMARY KEY (session, id)
);

-- Cut into pieces, so that reading a range costs the range.
CREATE TABLE blob_pieces (
    session text COLLATE "C" NOT NULL,
    blob    text COLLATE "C" NOT NULL,
    piece   bigint NOT NULL,
    content bytea NOT NULL,
    PRIMARY KEY (session, blob, piece)
);

-- "Always allow this": per person, in one session or in all.
CREATE TABLE allowances (
    ordinal bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant  text COLLATE "C" NOT NULL,
    person  text COLLATE "C" NOT NULL,
    id      text COLLATE "C" NOT NULL,
    session text COLLATE "C",
    agent   text COLLATE "C" NOT NULL,
    tool    text COLLATE "C" NOT NULL,
    args    text COLLATE "C" NOT NULL,
    at      bigint NOT NULL
);
CREATE UNIQUE INDEX allowances_by_person ON allowances (tenant, person, coalesce(session, ''), agent, tool, args);
CREATE INDEX allowances_by_session ON allowances (session) WHERE session IS NOT NULL;

-- What tools started and did not wait for. `place` orders those that were started at the same moment.
CREATE TABLE tasks (
    tenant    text COLLATE "C" NOT NULL,
    kind      text COLLATE "C" NOT NULL,
    reference text COLLATE "C" NOT NULL,
    place     text COLLATE "C" NOT NULL,
    session   text COLLATE "C" NOT NULL,
    turn      text COLLATE "C" NOT NULL,
    call      text COLLATE "C" NOT NULL,
    status    text COLLATE "C" NOT NULL,
    detail    text NOT NULL DEFAULT 'null',
    started   bigint NOT NULL,
    ended     bigint,
    notified  bigint,
    PRIMARY KEY (tenant, kind, reference)
);
CREATE INDEX tasks_by_session ON tasks (session, started);
CREATE INDEX tasks_by_tenant ON tasks (tenant, started DESC, place DESC);
CREATE INDEX tasks_untold ON tasks (ended) WHERE ended IS NOT NULL AND notified IS NULL;

-- What model calls cost, one row per call. It outlives the session.
CREATE TABLE usage (
    ordinal     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant      text COLLATE "C" NOT NULL,
    person      text COLLATE "C" NOT NULL,
    session     text COLLATE "C" NOT NULL,
    turn        text COLLATE "C" NOT NULL,
    agent       text COLLATE "C" NOT NULL,
    model       text COLLATE "C" NOT NULL,
    at          bigint NOT NULL,
    input       bigint NOT NULL,
    cache_read  bigint NOT NULL,
    cache_write bigint NOT NULL,
    output      bigint NOT NULL,
    reasoning   bigint NOT NULL,
    cost_micros bigint NOT NULL
);
CREATE INDEX usage_by_tenant ON usage (tenant, at);
CREATE INDEX usage_by_person ON usage (tenant, person, at);

-- Puts an input into a session's inbox. `outcome` is `missing` (no such session), `duplicate` (the key stands for the input
-- given back), `answered` (the card waits for no answer any more) or `accepted`.
CREATE FUNCTION post_input(
    p_session text, p_tenant text, p_now bigint, p_key text, p_card text, p_input text,
    OUT outcome text, OUT r_n bigint, OUT r_at bigint, OUT r_input text
) LANGUAGE plpgsql AS $$
BEGIN
    SELECT s.next_input INTO r_n FROM sessions s WHERE s.id = p_session AND s.tenant = p_tenant FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        outcome := 'missing';
        RETURN;
    END IF;
    IF p_key IS NOT NULL THEN
        SELECT 'duplicate', i.n, i.at, i.input INTO outcome, r_n, r_at, r_input
        FROM inbox i WHERE i.session = p_session AND i.key = p_key;
        IF FOUND THEN
            RETURN;
        END IF;
        SELECT s.next_input INTO r_n FROM sessions s WHERE s.id = p_session;
    END IF;
    IF p_card IS NOT NULL AND (
        NOT EXISTS (SELECT 1 FROM cards c WHERE c.id = p_card AND c.session = p_session AND c.status = 'pending')
        OR EXISTS (SELECT 1 FROM inbox i WHERE i.session = p_session AND i.card = p_card)
    ) THEN
        outcome := 'answered';
        RETURN;
    END IF;
    INSERT INTO inbox (session, n, at, key, card, input) VALUES (p_session, r_n, p_now, p_key, p_card, p_input);
    UPDATE sessions s SET pending = s.pending + 1, next_input = s.next_input + 1 WHERE s.id = p_session;
    outcome := 'accepted';
END $$;

-- Gives a session back. `p_below` is 0 to wait for an empty inbox, a number to keep the inputs before it, NULL to leave at once.
-- `outcome` is `missing`, `fenced` (`r_fence` is in force), `waiting` (`r_count` inputs wait) or `released`.
CREATE FUNCTION release_session(
    p_session text, p_tenant text, p_fence bigint, p_below bigint,
    OUT outcome text, OUT r_fence bigint, OUT r_count bigint
) LANGUAGE plpgsql AS $$
DECLARE
    held boolean;
BEGIN
    -- Once the row is held, nobody posts; what was posted before is seen by the statements that follow.
    SELECT s.fence, s.pending, s.owner IS NOT NULL INTO r_fence, r_count, held
    FROM sessions s WHERE s.id = p_session AND s.tenant = p_tenant FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        outcome := 'missing';
        RETURN;
    END IF;
    IF r_fence <> p_fence OR NOT held THEN
        outcome := 'fenced';
        RETURN;
    END IF;
    IF p_below > 0 THEN
        SELECT count(*) INTO r_count FROM inbox i WHERE i.session = p_session AND NOT i.consumed AND i.n >= p_below;
    END IF;
    IF p_below IS NOT NULL AND r_count > 0 THEN
        outcome := 'waiting';
        RETURN;
    END IF;
    UPDATE sessions s SET fence = s.fence + 1, owner = NULL, lease_until = -9223372036854775808,
        kept_below = CASE WHEN p_below > 0 THEN p_below ELSE s.kept_below END
    WHERE s.id = p_session;
    outcome := 'released';
END $$;

-- Deletes a session and all that belongs to it. `outcome` is `missing`, `busy` (with who and until when) or `deleted`.
CREATE FUNCTION delete_session(
    p_session text, p_tenant text, p_now bigint,
    OUT outcome text, OUT r_owner text, OUT r_until bigint
) LANGUAGE plpgsql AS $$
BEGIN
    SELECT s.owner, s.lease_until INTO r_owner, r_until
    FROM sessions s WHERE s.id = p_session AND s.tenant = p_tenant FOR UPDATE;
    IF NOT FOUND THEN
        outcome := 'missing';
        RETURN;
    END IF;
    IF r_owner IS NOT NULL AND r_until > p_now THEN
        outcome := 'busy';
        RETURN;
    END IF;
    INSERT INTO deleted_sessions (id) VALUES (p_session);
    DELETE FROM session_states WHERE session = p_session;
    DELETE FROM turns WHERE session = p_session;
    DELETE FROM steps WHERE session = p_session;
    DELETE FROM messages WHERE session = p_session;
    DELETE FROM cards WHERE session = p_session;
    DELETE FROM captured WHERE session = p_session;
    DELETE FROM inbox WHERE session = p_session;
    DELETE FROM blob_pieces WHERE session = p_session;
    DELETE FROM blobs WHERE session = p_session;
    DELETE FROM allowances WHERE session = p_session;
    DELETE FROM tasks WHERE session = p_session;
    DELETE FROM sessions WHERE id = p_session;
    outcome := 'deleted';
END $$;

-- Writes one step with all that goes with it. `outcome` is `missing`, `refused` (it does not fit what is stored, and nothing is
-- written) or `done`. `p_expects` says which turn must be open: 'any', 'none' (the step opens `p_turn`), 'some', or 'this'
-- (`p_turn`). What seldom comes is in `p_more`.
CREATE FUNCTION commit_step(
    p_session text, p_tenant text, p_fence bigint, p_expects text, p_turn text,
    p_first_seq bigint, p_events_count bigint, p_first_n bigint, p_entries_count bigint,
    p_journal text, p_events text, p_now bigint, p_consumed bigint[], p_spec bytea, p_state bytea, p_more jsonb,
    OUT outcome text, OUT r_version bigint, OUT r_next_seq bigint, OUT r_pending bigint, OUT r_released boolean
) LANGUAGE plpgsql AS $$
DECLARE
    s sessions%ROWTYPE;
    consumed_count bigint := coalesce(cardinality(p_consumed), 0);
    change jsonb := p_more -> 'turn';
    m record;
BEGIN
    outcome := 'missing';
    SELECT * INTO s FROM sessions x WHERE x.id = p_session AND x.tenant = p_tenant FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    outcome := 'refused';
    IF s.fence <> p_fence OR s.owner IS NULL
        OR (p_first_seq IS NOT NULL AND s.next_seq <> p_first_seq)
        OR (p_first_n IS NOT NULL AND s.next_n <> p_first_n)
        OR NOT (CASE p_expects
            WHEN 'any' THEN true
            WHEN 'none' THEN s.turn IS NULL
            WHEN 'some' THEN s.turn IS NOT NULL
            ELSE s.turn IS NOT DISTINCT FROM p_turn
        END)
    THEN
        RETURN;
    END IF;
    IF p_expects = 'none' AND EXISTS (SELECT 1 FROM turns t WHERE t.session = p_session AND t.id = p_turn) THEN
        RETURN;
    END IF;
    IF consumed_count > 0 THEN
        IF (SELECT count(*) FROM inbox i WHERE i.session = p_session AND i.n = ANY (p_consumed) AND NOT i.consumed)
            <> consumed_count
        THEN
            RETURN;
        END IF;
        UPDATE inbox i SET consumed = true WHERE i.session = p_session AND i.n = ANY (p_consumed);
    END IF;

    s.version := s.version + 1;
    s.next_seq := s.next_seq + p_events_count;
    s.pending := s.pending - consumed_count;
    IF p_expects = 'none' THEN
        s.turn := p_turn;
        s.next_n := 0;
        INSERT INTO turns (session, id, spec, status, started, since)
        VALUES (p_session, p_turn, p_spec, 'running', p_now, s.next_seq - 1 - p_events_count);
    END IF;
    s.next_n := s.next_n + p_entries_count;
    IF p_journal IS NOT NULL OR p_events IS NOT NULL THEN
        INSERT INTO steps (session, last_seq, version, turn, journal, events)
        VALUES (p_session, s.next_seq - 1, s.version, s.turn, p_journal, p_events);
    END IF;
    IF p_state IS NOT NULL THEN
        INSERT INTO session_states AS x (session, state) VALUES (p_session, p_state)
        ON CONFLICT (session) DO UPDATE SET state = excluded.state;
    END IF;

    IF p_expects = 'none' OR change IS NOT NULL OR p_more ? 'title' THEN
        s.updated := p_now;
    END IF;
    IF p_expects = 'none' OR change IS NOT NULL THEN
        s.parked := NULL;
        s.parked_at := NULL;
    END IF;
    IF change IS NOT NULL THEN
        UPDATE turns t SET
            status = change ->> 'status',
            outcome = change ->> 'outcome',
            ended = CASE WHEN change ->> 'status' = 'finished' THEN p_now ELSE t.ended END,
            until = CASE WHEN change ->> 'status' = 'finished' THEN s.next_seq - 1 ELSE t.until END
        WHERE t.session = p_session AND t.id = change ->> 'id';
        IF change ->> 'status' = 'finished' THEN
            s.turn := NULL;
        END IF;
    END IF;
    s.status := coalesce(p_more ->> 'status', s.status);
    IF s.title IS NULL AND p_more ? 'title' THEN
        s.title := p_more ->> 'title';
        s.title_folded := p_more ->> 'title_folded';
    END IF;
    IF p_more ? 'model' AND s.model IS NOT DISTINCT FROM (p_more -> 'model' ->> 'instead_of') THEN
        s.model := p_more -> 'model' ->> 'model';
    END IF;

    FOR m IN
        SELECT x.* FROM jsonb_to_recordset(p_more -> 'messages')
            AS x (id text, turn text, role text, body text, words text)
    LOOP
        UPDATE messages g SET turn = m.turn, role = m.role, body = m.body,
            words = array_to_tsvector(string_to_array(m.words, ' '))
        WHERE g.session = p_session AND g.id = m.id;
        IF NOT FOUND THEN
            INSERT INTO messages (session, position, id, turn, role, body, words)
            VALUES (p_session, s.next_position, m.id, m.turn, m.role, m.body,
                array_to_tsvector(string_to_array(m.words, ' ')));
            s.next_position := s.next_position + 1;
        END IF;
    END LOOP;
    FOR m IN
        SELECT x.* FROM jsonb_to_recordset(p_more -> 'cards')
            AS x (id text, turn text, call text, asks text, status text, at bigint, expires_at bigint)
    LOOP
        INSERT INTO cards AS c (id, session, tenant, turn, call, asks, status, at, expires_at)
        VALUES (m.id, p_session, p_tenant, m.turn, m.call, m.asks, m.status, m.at, m.expires_at)
        ON CONFLICT (id) DO UPDATE SET status = excluded.status, expires_at = excluded.expires_at
        WHERE c.session = excluded.session;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'card % belongs to another session', m.id;
        END IF;
    END LOOP;
    IF p_more ? 'captured' THEN
        INSERT INTO captured AS c (session, turn, number, tenant, at, action, status)
        SELECT p_session, x.turn, x.number, p_tenant, p_now, x.action, 'pending'
        FROM jsonb_to_recordset(p_more -> 'captured') AS x (turn text, number integer, action text)
        ON CONFLICT (session, turn, number) DO UPDATE SET action = excluded.action, revision = c.revision + 1;
    END IF;
    IF p_more ? 'allowances' THEN
        INSERT INTO allowances (tenant, person, id, session, agent, tool, args, at)
        SELECT p_tenant, x.person, x.id, x.session, x.agent, x.tool, x.args, x.at
        FROM jsonb_to_recordset(p_more -> 'allowances')
            AS x (person text, id text, session text, agent text, tool text, args text, at bigint)
        ON CONFLICT DO NOTHING;
    END IF;
    IF p_more ? 'tasks' THEN
        INSERT INTO tasks (tenant, kind, reference, place, session, turn, call, status, started)
        SELECT p_tenant, x.kind, x.reference, x.place, p_session, x.turn, x.call, 'running', x.started
        FROM jsonb_to_recordset(p_more -> 'tasks')
            AS x (kind text, reference text, place text, turn text, call text, started bigint)
        ON CONFLICT DO NOTHING;
    END IF;
    IF p_more ? 'usage' THEN
        INSERT INTO usage (tenant, person, session, turn, agent, model, at,
            input, cache_read, cache_write, output, reasoning, cost_micros)
        SELECT p_tenant, s.person, p_session, x.turn, x.agent, x.model, x.at,
            x.input, x.cache_read, x.cache_write, x.output, x.reasoning, x.cost_micros
        FROM jsonb_to_recordset(p_more -> 'usage')
            AS x (turn text, agent text, model text, at bigint, input bigint, cache_read bigint, cache_write bigint,
                output bigint, reasoning bigint, cost_micros bigint);
    END IF;
    r_released := p_more ? 'release' AND s.pending = 0;
    IF r_released THEN
        s.fence := s.fence + 1;
        s.owner := NULL;
        s.lease_until := -9223372036854775808;
    END IF;

    UPDATE sessions x SET
        version = s.version, next_seq = s.next_seq, next_n = s.next_n, next_position = s.next_position,
        pending = s.pending, turn = s.turn, status = s.status, updated = s.updated,
        title = s.title, title_folded = s.title_folded, model = s.model,
        parked = s.parked, parked_at = s.parked_at,
        fence = s.fence, owner = s.owner, lease_until = s.lease_until
    WHERE x.id = p_session;
    outcome := 'done';
    r_version := s.version;
    r_next_seq := s.next_seq;
    r_pending := s.pending;
END $$;

-- Keeps a large output aside, in the place of another of its id. Whoever calls it holds the session's row.
CREATE FUNCTION put_blob(p_session text, p_id text, p_media_type text, p_size bigint, p_pieces bytea[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM blob_pieces WHERE session = p_session AND blob = p_id;
    INSERT INTO blobs (session, id, media_type, size) VALUES (p_session, p_id, p_media_type, p_size)
    ON CONFLICT (session, id) DO UPDATE SET media_type = excluded.media_type, size = excluded.size;
    INSERT INTO blob_pieces (session, blob, piece, content)
    SELECT p_session, p_id, x.n - 1, x.content FROM unnest(p_pieces) WITH ORDINALITY AS x (content, n);
END $$;
