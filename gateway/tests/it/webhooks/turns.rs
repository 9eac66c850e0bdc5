//! Whose deliveries a gateway takes next: organisations take turns, endpoints that fail come last, and what waits for another
//! delivery is not looked at.
use gpuaas_common::id::IdGen;
use gpuaas_dev::postgres::TestDb;
use gpuaas_gateway::store::{
    self, Attempted, DeliveryLimits, Group, NewWebhook, Next, Outgoing, Source, Taken, seed,
};
use jiff::Timestamp;
use jiff_sqlx::ToSqlx as _;
use sqlx::PgPool;
use uuid::Uuid;

const LEASE: f64 = 600.0;

struct Queue {
    pool: PgPool,
    ids: IdGen,
    position: i64,
    _db: TestDb,
}

impl Queue {
    async fn new() -> Self {
        let db = TestDb::create().await;
        Self {
            pool: db.pool("gpuaas_edge").await,
            ids: IdGen::new(1),
            position: 0,
            _db: db,
        }
    }

    /// A project of an organisation of its own.
    async fn project(&self, organisation: &str) -> Uuid {
        let made = seed(&self.pool, &self.ids, "i", organisation, "p", &[]).await;
        made.expect("seeded").project_id
    }

    async fn webhook(&self, project: Uuid) -> Uuid {
        let id = self.ids.next();
        let new = NewWebhook {
            id,
            group: Group::Project(project),
            url: "https://hooks.example.com/",
            event_types: &[],
            description: "",
            secret: b"sealed",
            creator: "user:demo",
        };
        let mut conn = self.pool.acquire().await.expect("connection");
        store::insert_webhook(&mut conn, &new).await.expect("made");
        id
    }

    async fn event(&mut self, project: Uuid, object: Uuid) {
        let event = Outgoing {
            position: Some(self.position + 1),
            event_type: "allocation.active".to_owned(),
            object,
            project,
            at: Timestamp::now().to_sqlx(),
            body: "{}".to_owned(),
        };
        let moved = (Source::Ledger, self.position, self.position + 1);
        let made = store::queue_deliveries(&self.pool, &self.ids, moved, &[event]).await;
        assert!(made.expect("queued") > 0);
        self.position += 1;
    }

    async fn take(&self, all: i64, failing: i64) -> Vec<Taken> {
        let room = DeliveryLimits { all, failing };
        let taken = store::take_deliveries(&self.pool, room, LEASE).await;
        taken.expect("taken")
    }

    async fn note(&self, taken: &Taken, next: Next) {
        let outcome = Attempted {
            status: 500,
            error: String::new(),
            next,
        };
        let mut tx = self.pool.begin().await.expect("transaction");
        let noted = store::note_attempt(&mut tx, taken, &outcome).await;
        noted.expect("noted");
        tx.commit().await.expect("committed");
    }
}

fn of(taken: &[Taken], webhook: Uuid) -> usize {
    taken.iter().filter(|one| one.webhook == webhook).count()
}

#[tokio::test]
async fn organisations_take_turns() {
    let mut queue = Queue::new().await;
    let (many, few) = (queue.project("many").await, queue.project("few").await);
    for _ in 0..10 {
        queue.webhook(many).await;
    }
    let one = queue.webhook(few).await;
    for _ in 0..6 {
        queue.event(many, Uuid::now_v7()).await;
    }
    queue.event(few, Uuid::now_v7()).await;
    let first = queue.take(6, 3).await;
    assert_eq!((first.len(), of(&first, one)), (6, 1));
    // the one with much in hand waits
    for _ in 0..3 {
        queue.event(few, Uuid::now_v7()).await;
    }
    let second = queue.take(3, 3).await;
    assert_eq!((second.len(), of(&second, one)), (3, 3));
    // of one webhook no more than four are in hand, however much is free
    queue.event(few, Uuid::now_v7()).await;
    let rest = queue.take(1000, 3).await;
    assert_eq!((rest.len(), of(&rest, one)), (10 * 4 - 5, 0));
}

#[tokio::test]
async fn endpoints_that_fail_come_last_and_one_by_one() {
    let mut queue = Queue::new().await;
    let project = queue.project("one").await;
    let mut failing = Vec::new();
    for _ in 0..4 {
        failing.push(queue.webhook(project).await);
    }
    sqlx::query("UPDATE webhooks SET failing_time = clock_timestamp()")
        .execute(&queue.pool)
        .await
        .expect("they fail");
    for _ in 0..3 {
        queue.event(project, Uuid::now_v7()).await;
    }
    let answering = queue.webhook(project).await;
    queue.event(project, Uuid::now_v7()).await;
    let taken = queue.take(2, 1).await;
    assert_eq!((taken.len(), of(&taken, answering)), (2, 1));
    assert_eq!(queue.take(10, 0).await.len(), 0);
    let rest = queue.take(100, 100).await;
    assert_eq!(rest.len(), 3, "one of each that has none in hand");
    assert!(rest.iter().all(|one| one.failing_time.is_some()));
}

#[tokio::test]
async fn later_events_of_an_object_are_due_when_the_one_before_is() {
    let mut queue = Queue::new().await;
    let project = queue.project("one").await;
    queue.webhook(project).await;
    let object = Uuid::now_v7();
    queue.event(project, object).await;
    queue.event(project, object).await;
    let first = queue.take(10, 10).await;
    assert_eq!(first.len(), 1);
    queue.note(&first[0], Next::Again(3600.0)).await;
    let due = async || -> i64 {
        sqlx::query_scalar(
            "SELECT count(*) FROM webhook_deliveries WHERE state = 'pending' AND next_attempt_time <= clock_timestamp()",
        )
        .fetch_one(&queue.pool)
        .await
        .expect("count")
    };
    assert_eq!(due().await, 0);
    assert!(queue.take(10, 10).await.is_empty());
    sqlx::query(
        "UPDATE webhook_deliveries SET next_attempt_time = clock_timestamp() WHERE id = $1",
    )
    .bind(first[0].id)
    .execute(&queue.pool)
    .await
    .expect("an hour later");
    let again = queue.take(10, 10).await;
    assert_eq!((again.len(), again[0].id), (1, first[0].id));
    queue.note(&again[0], Next::Done).await;
    assert_eq!(due().await, 1);
    let second = queue.take(10, 10).await;
    assert_eq!(second.len(), 1);
    assert_ne!(second[0].id, first[0].id);
    // the result of an attempt that somebody else has made anew counts no more
    queue.note(&again[0], Next::Never).await;
    assert!(queue.take(10, 10).await.is_empty());
}
