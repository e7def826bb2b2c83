-- A commit is one statement: each statement of a script is an answer that wakes the caller, and a transaction of its own needs
-- none around it. What seldom comes is written beside it, in a transaction.

-- The door through which every step goes: one statement that checks the step against the session's row, moves the row on, adds
-- the step and books what its model calls cost (`usage`, a JSON array of arrays). A step that does not fit sets the fence to
-- NULL, which the column refuses, and so changes nothing. `expects` says which turn must be open: 'any', 'none' (the step opens
-- `turn`), 'some', or 'this' (`turn`).
DROP VIEW step_in;
CREATE VIEW step_in AS
SELECT NULL AS session, NULL AS tenant, NULL AS fence, NULL AS expects, NULL AS turn,
       NULL AS first_seq, 0 AS added_events, NULL AS first_n, 0 AS added_entries, NULL AS journal, NULL AS events,
       NULL AS usage
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
    INSERT INTO usage (tenant, user, session, turn, agent, model, at,
        input, cache_read, cache_write, output, reasoning, cost_micros, account)
    SELECT s.tenant, s.user, s.id, u.value ->> 0, u.value ->> 1, u.value ->> 2, u.value ->> 3,
        u.value ->> 4, u.value ->> 5, u.value ->> 6, u.value ->> 7, u.value ->> 8, u.value ->> 9, u.value ->> 10
    FROM json_each(NEW.usage) u, sessions s WHERE s.id = NEW.session;
END;

-- The door for a step that opens a turn, ends it, or changes what the session shows. `consumed` is a JSON array of the inputs
-- it has dealt with, `opens` what a new turn was asked, `changes` whether the columns of the session's row that are indexed
-- or seldom change are touched, `touched` the moment to show as its last change; `turn_status`, `outcome` and `ended` are of
-- the turn `turn`; `message` and the columns after it are one message with the words it is found by; `releases` hands the
-- session back if no input waits then.
CREATE VIEW commit_in AS
SELECT NULL AS session, NULL AS tenant, NULL AS fence, NULL AS expects, NULL AS turn,
       NULL AS first_seq, 0 AS added_events, NULL AS first_n, 0 AS added_entries, NULL AS journal, NULL AS events,
       NULL AS usage,
       NULL AS consumed, NULL AS opens, NULL AS started, 0 AS changes, NULL AS touched, NULL AS status,
       NULL AS model_before, NULL AS model, NULL AS title, NULL AS title_folded,
       NULL AS turn_status, NULL AS outcome, NULL AS ended, NULL AS state,
       NULL AS message, NULL AS message_turn, NULL AS role, NULL AS body, NULL AS words,
       0 AS releases
WHERE 0;
CREATE TRIGGER commit_in_insert INSTEAD OF INSERT ON commit_in BEGIN
    UPDATE inbox SET consumed = 1
    WHERE session = NEW.session AND consumed = 0 AND n IN (SELECT value FROM json_each(NEW.consumed));
    -- `changes()` counts the inputs that the statement before has marked; `pending` refuses NULL.
    UPDATE sessions SET pending = CASE
        WHEN changes() = json_array_length(NEW.consumed) THEN pending - json_array_length(NEW.consumed)
    END
    WHERE id = NEW.session AND NEW.consumed IS NOT NULL;
    INSERT INTO step_in (session, tenant, fence, expects, turn,
        first_seq, added_events, first_n, added_entries, journal, events, usage)
    VALUES (NEW.session, NEW.tenant, NEW.fence, NEW.expects, NEW.turn,
        NEW.first_seq, NEW.added_events, NEW.first_n, NEW.added_entries, NEW.journal, NEW.events, NEW.usage);
    INSERT INTO turns (session, id, spec, status, started, since)
    SELECT id, turn, NEW.opens, 'running', NEW.started, next_seq - 1 - NEW.added_events FROM sessions
    WHERE id = NEW.session AND NEW.opens IS NOT NULL;
    UPDATE sessions SET
        updated = coalesce(NEW.touched, updated),
        parked = CASE WHEN NEW.opens IS NULL AND NEW.turn_status IS NULL THEN parked END,
        parked_at = CASE WHEN NEW.opens IS NULL AND NEW.turn_status IS NULL THEN parked_at END,
        status = coalesce(NEW.status, status),
        model = CASE WHEN NEW.model IS NOT NULL AND model IS NEW.model_before THEN NEW.model ELSE model END,
        title_folded = CASE WHEN title IS NULL AND NEW.title IS NOT NULL THEN NEW.title_folded ELSE title_folded END,
        title = coalesce(title, NEW.title),
        turn = CASE WHEN NEW.turn_status IS 'finished' THEN NULL ELSE turn END
    WHERE id = NEW.session AND NEW.changes;
    INSERT INTO messages (session, position, id, turn, role, body)
    SELECT NEW.session, (SELECT coalesce(max(position) + 1, 0) FROM messages WHERE session = NEW.session),
        NEW.message, NEW.message_turn, NEW.role, NEW.body
    WHERE NEW.message IS NOT NULL
    ON CONFLICT (session, id) DO UPDATE SET turn = excluded.turn, role = excluded.role, body = excluded.body;
    INSERT OR REPLACE INTO message_words (rowid, words)
    SELECT ordinal, NEW.words FROM messages
    WHERE session = NEW.session AND id = NEW.message AND NEW.words IS NOT NULL;
    INSERT INTO session_states (session, state)
    SELECT NEW.session, NEW.state WHERE NEW.state IS NOT NULL
    ON CONFLICT (session) DO UPDATE SET state = excluded.state;
    UPDATE turns SET
        status = NEW.turn_status,
        outcome = NEW.outcome,
        ended = coalesce(NEW.ended, ended),
        until = CASE
            WHEN NEW.ended IS NULL THEN until
            ELSE (SELECT next_seq - 1 FROM sessions WHERE id = NEW.session)
        END
    WHERE session = NEW.session AND id = NEW.turn AND NEW.turn_status IS NOT NULL;
    UPDATE sessions SET fence = fence + 1, owner = NULL, lease_until = -9223372036854775808
    WHERE id = NEW.session AND NEW.releases AND pending = 0;
END;

-- An input that has the next number waits; a copy of an older one does not change the session's row.
CREATE TRIGGER inbox_insert AFTER INSERT ON inbox
WHEN NEW.n = (SELECT next_input FROM sessions WHERE id = NEW.session) BEGIN
    UPDATE sessions SET pending = pending + 1, next_input = next_input + 1 WHERE id = NEW.session;
END;
