-- What model calls are booked to beside the person, such as the id of an API key.
ALTER TABLE usage ADD COLUMN account text COLLATE "C";
CREATE INDEX usage_by_account ON usage (tenant, account, at) WHERE account IS NOT NULL;

-- The function that writes whole commits takes the account with each call. The rest of it stays as it is, and a function that
-- is not as expected is an error rather than one that forgets the account.
DO $$
DECLARE
    before text := pg_get_functiondef('commit_step'::regproc);
    after text;
BEGIN
    after := replace(before, 'output, reasoning, cost_micros)', 'output, reasoning, cost_micros, account)');
    after := replace(after, 'x.reasoning, x.cost_micros', 'x.reasoning, x.cost_micros, x.account');
    after := replace(after, 'reasoning bigint, cost_micros bigint)', 'reasoning bigint, cost_micros bigint, account text)');
    IF position('cost_micros, account)' IN after) = 0 OR position('x.account' IN after) = 0
        OR position('account text)' IN after) = 0 THEN
        RAISE EXCEPTION 'commit_step is not as this migration expects it';
    END IF;
    EXECUTE after;
END $$;
