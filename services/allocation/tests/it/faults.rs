//! Faults that the database is told to have.

use crate::world::World;

impl World {
    /// Makes the database refuse to record a step as done, once: its effect is there, its record is not, which
    /// is what a crash between the two leaves.
    pub async fn lose_record_of(&self, step: &'static str) {
        let sql = format!(
            "CREATE SEQUENCE placement.losses;
             GRANT USAGE ON SEQUENCE placement.losses TO gpuaas_allocation;
             CREATE FUNCTION placement.lose() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN
                 IF NEW.step = '{step}' AND NEW.state = 'done' AND nextval('placement.losses') = 1 THEN
                     RAISE EXCEPTION 'the record is lost';
                 END IF;
                 RETURN NEW;
             END $$;
             CREATE TRIGGER lose BEFORE UPDATE ON placement.workflow_steps FOR EACH ROW EXECUTE FUNCTION placement.lose()"
        );
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql))
            .execute(&self.owner)
            .await
            .expect("a trigger");
    }

    /// Makes a step's time be over when it begins.
    pub async fn overdue_at(&self, step: &'static str) {
        let sql = format!(
            "CREATE FUNCTION placement.overdue() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN
                 IF NEW.step = '{step}' THEN NEW.started_at := NEW.started_at - interval '3 hours'; END IF;
                 RETURN NEW;
             END $$;
             CREATE TRIGGER overdue BEFORE INSERT ON placement.workflow_steps
                 FOR EACH ROW EXECUTE FUNCTION placement.overdue()"
        );
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql))
            .execute(&self.owner)
            .await
            .expect("a trigger");
    }

    /// Makes a step's time be over when it is tried again.
    pub async fn overdue_at_second_attempt(&self, step: &'static str) {
        let sql = format!(
            "CREATE FUNCTION placement.overdue() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN
                 IF NEW.step = '{step}' AND NEW.attempts = 2 THEN
                     NEW.started_at := NEW.started_at - interval '3 hours';
                 END IF;
                 RETURN NEW;
             END $$;
             CREATE TRIGGER overdue BEFORE UPDATE ON placement.workflow_steps
                 FOR EACH ROW EXECUTE FUNCTION placement.overdue()"
        );
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql))
            .execute(&self.owner)
            .await
            .expect("a trigger");
    }
}
