-- A step that is done is neither failed nor begun again afterwards: its effect is there, and what had been undone after it would
-- be somebody's VM. A runner that had no answer to the commit finds the step done and goes on.
DROP TRIGGER workflow_steps_grow ON workflow_steps;
CREATE TRIGGER workflow_steps_grow BEFORE UPDATE ON workflow_steps FOR EACH ROW
    WHEN (NEW.lease_epoch < OLD.lease_epoch OR NEW.attempts < OLD.attempts OR OLD.state = 'done' AND NEW.state <> 'done')
    EXECUTE FUNCTION refuse_lower();
