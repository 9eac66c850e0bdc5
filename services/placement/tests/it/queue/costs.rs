//! What a queue costs those who launch behind it, and those who serve it: no more statements for a long one.
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gpuaas_placement::capacity::Ledger;
use gpuaas_placement::queue;
use gpuaas_placement::reserve::{Constraints, MAX_QUEUED, Pass, Request};
use sqlx::postgres::PgPoolOptions;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use uuid::Uuid;

use super::passes::another_region;
use super::{free, serve_queue, sound, wait};
use crate::reserving;
use crate::world::{POLICY, REGION, World};

/// Counts the statements that are sent by this thread.
struct Statements(Arc<AtomicUsize>);

impl Subscriber for Statements {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "sqlx::query"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// How many statements something sends.
async fn statements<T>(of: impl Future<Output = T>) -> (usize, T) {
    let count = Arc::new(AtomicUsize::new(0));
    let guard = tracing::subscriber::set_default(Statements(Arc::clone(&count)));
    let outcome = of.await;
    drop(guard);
    (count.load(Ordering::Relaxed), outcome)
}

/// A ledger with one connection.
async fn single(world: &World) -> Ledger {
    let options = world.db.options("gpuaas_scheduler");
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .connect_with(options);
    Ledger::new(pool.await.expect("pool"))
}

/// Two nodes with allocations of the project on both, one slot of the second free, and what waits is to keep away from
/// these allocations: it never fits, and holds up nobody.
async fn two_nodes() -> (World, Vec<Uuid>) {
    let world = World::new().await;
    for slots in [8, 2] {
        world.lab_node(slots).await;
    }
    let mut placed = Vec::new();
    for _ in 0..9 {
        placed.push(world.reserved(1).await);
    }
    (world, placed)
}

/// One that names eight of those that are placed by id, and all of them by their label.
fn constrained(world: &World, placed: &[Uuid], number: usize) -> Request {
    let mut anti_affinity = placed.to_vec();
    anti_affinity.remove(number % placed.len());
    Request {
        constraints: Constraints {
            anti_affinity,
            anti_affinity_label: Some(("team".into(), "a".into())),
            ..Constraints::default()
        },
        ..world.request(1)
    }
}

/// The figure of `docs/performance.md`.
#[tokio::test]
async fn a_reservation_takes_eleven_round_trips() {
    let world = World::new().await;
    world.lab_node(4).await;
    let ledger = single(&world).await;
    let reserve = async || {
        let made = reserving::one(&ledger, world.ids, POLICY, &world.request(1)).await;
        made.expect("reserved");
    };
    // what is only asked once has been asked
    reserve().await;
    for _ in 0..2 {
        let (sent, ()) = Box::pin(statements(reserve())).await;
        assert_eq!(sent, 11, "BEGIN and COMMIT among them");
    }
}

#[tokio::test]
async fn b_57_a_launch_behind_a_long_queue_sends_as_many_statements_as_behind_a_short_one() {
    let (world, placed) = two_nodes().await;
    let ledger = single(&world).await;
    let launch = async || {
        let request = Request {
            project_id: Uuid::now_v7(),
            ..world.request(1)
        };
        let made = reserving::one(&ledger, world.ids, POLICY, &request).await;
        let made = made.expect("they do not fit there").allocation_id;
        free(&world, made).await;
    };
    let join = async |number| {
        let request = constrained(&world, &placed, number);
        wait(&world, &request).await.expect("waits");
    };
    join(0).await;
    // what is only asked once has been asked
    launch().await;
    let (behind_one, ()) = Box::pin(statements(launch())).await;
    for number in 1..MAX_QUEUED as usize {
        join(number).await;
    }
    let (behind_many, ()) = Box::pin(statements(launch())).await;
    println!("{behind_one} statements behind one, {behind_many} behind {MAX_QUEUED}");
    assert!(behind_one > 10, "they are counted");
    assert_eq!(behind_one, behind_many);
    sound(&world).await;
}

#[tokio::test]
async fn b_57_a_pass_sends_few_statements_for_each_that_is_queued() {
    const BATCHES: usize = 40;
    let (world, placed) = two_nodes().await;
    let ledger = single(&world).await;
    let pass = async || {
        let pass = serve_queue(&ledger, world.ids, POLICY).await;
        assert_eq!(pass.expect("pass"), Pass::default());
    };
    let join = async |number| {
        let request = constrained(&world, &placed, number);
        wait(&world, &request).await.expect("waits").allocation_id
    };
    let mut waiting = vec![join(0).await];
    pass().await;
    let (for_one, ()) = statements(pass()).await;
    // all of them come to the same rules, whichever of the allocations they name
    for number in 1..BATCHES {
        waiting.push(join(number).await);
    }
    pass().await;
    let (for_many, ()) = statements(pass()).await;
    println!("{for_one} statements for one batch, {for_many} for {BATCHES}");
    // of each but the first only the quota is looked at
    assert!(for_many <= for_one + 2 * BATCHES, "{for_one} {for_many}");

    // as many that each want something else
    for id in waiting {
        free(&world, id).await;
    }
    for number in 0..BATCHES {
        let mut request = constrained(&world, &placed, 0);
        let constraints = &mut request.constraints;
        constraints.require_prewarmed = true;
        request.image.digest = format!("sha256:{number:016x}{:048}", 0);
        wait(&world, &request).await.expect("waits");
    }
    pass().await;
    let (for_each, ()) = statements(pass()).await;
    println!("{for_each} statements for {BATCHES} batches of which no two are alike");
    assert!(for_each <= for_one * BATCHES, "{for_one} {for_each}");
    sound(&world).await;
}

/// A page of a list, and one allocation, cost the same however many queues they wait in and however long these are.
#[tokio::test]
async fn where_a_page_of_allocations_stands_is_one_statement() {
    let (world, _) = World::with_lab_slots(1).await;
    let elsewhere = another_region(&world).await;
    let mut page_of = Vec::new();
    for region_code in [REGION, elsewhere] {
        let request = || Request {
            region_code: region_code.into(),
            ..world.request(1)
        };
        world.reserve(&request()).await.expect("the only slot");
        for _ in 0..3 {
            let made = wait(&world, &request()).await.expect("waits");
            page_of.push(world.get(made.allocation_id).await);
        }
    }
    let ledger = single(&world).await;
    let mut conn = ledger.acquire().await.expect("connection");
    for page in [&page_of[..1], &page_of] {
        let (sent, found) = statements(queue::positions(&mut conn, page)).await;
        assert_eq!(sent, 1);
        let found = found.expect("positions");
        let places: Vec<u32> = page.iter().map(|row| found[&row.id].position).collect();
        assert_eq!(places, [1, 2, 3, 1, 2, 3][..page.len()]);
    }
}
