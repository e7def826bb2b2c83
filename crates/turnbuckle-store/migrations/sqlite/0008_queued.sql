-- What was in the inbox when a turn paused is for after the turn: the inputs below this number. The store's own order, since the
-- clocks of those who post may differ.
ALTER TABLE turns ADD COLUMN queued_below INTEGER NOT NULL DEFAULT 0;
UPDATE turns SET queued_below = (SELECT kept_below FROM sessions WHERE id = turns.session) WHERE status = 'paused';
CREATE TRIGGER turns_paused AFTER UPDATE OF status ON turns WHEN NEW.status = 'paused' BEGIN
    UPDATE turns SET queued_below = (SELECT next_input FROM sessions WHERE id = NEW.session) WHERE ordinal = NEW.ordinal;
END;
