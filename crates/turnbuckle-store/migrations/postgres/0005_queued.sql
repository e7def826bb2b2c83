-- What was in the inbox when a turn paused is for after the turn: the inputs below this number. The store's own order, since the
-- clocks of those who post may differ.
ALTER TABLE turns ADD COLUMN queued_below bigint NOT NULL DEFAULT 0;
UPDATE turns t SET queued_below = s.kept_below FROM sessions s WHERE s.id = t.session AND t.status = 'paused';
CREATE FUNCTION note_queued() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    SELECT s.next_input INTO NEW.queued_below FROM sessions s WHERE s.id = NEW.session;
    RETURN NEW;
END $$;
CREATE TRIGGER turns_paused BEFORE UPDATE OF status ON turns
    FOR EACH ROW WHEN (NEW.status = 'paused') EXECUTE FUNCTION note_queued();
