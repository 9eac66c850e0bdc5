//! What the tests of billing share: a ledger and a scheduler that speak real gRPC, and events to feed them.
pub mod killer;
mod scheduler;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use gpuaas_billing::HostLost;
use gpuaas_billing::api::Api;
use gpuaas_billing::metrics::Metrics;
use gpuaas_billing::workflow::consumer::Consumer;
use gpuaas_billing::workflow::publisher::Publisher;
use gpuaas_billing::workflow::reconciler::{self, Reconciler};
use gpuaas_common::client::{GrpcChannel, Propagate};
use gpuaas_common::db;
use gpuaas_common::id::IdGen;
use gpuaas_common::identity::{Caller, PlatformRole};
use gpuaas_common::telemetry;
use gpuaas_common::time::proto_time;
use gpuaas_common::wake::Wake;
use gpuaas_dev::postgres::TestDb;
use gpuaas_dev::until::until;
use gpuaas_proto::gpuaas::internal::events::v1::event_service_server::{
    EventService, EventServiceServer,
};
use gpuaas_proto::gpuaas::internal::events::v1::{Event, ReadRequest, ReadResponse};
use jiff::Timestamp;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use prometheus::Registry;
use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};
use sqlx::PgPool;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::service::Routes;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Endpoint;
use tonic::{Request, Response, Status};
use uuid::Uuid;

pub use scheduler::Scheduler;

pub const ROLE: &str = "gpuaas_billing";
pub const SKU: &str = "lab-slice";

/// Serves gRPC on loopback until the test ends, and a channel to it.
pub async fn serve(routes: Routes) -> GrpcChannel {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(
        tonic::transport::Server::builder()
            .add_routes(routes)
            .serve_with_incoming(TcpListenerStream::new(listener)),
    );
    let channel = Endpoint::from_shared(format!("http://{address}"))
        .expect("address")
        .connect_lazy();
    InterceptedService::new(channel, Propagate)
}

/// A ledger's log that the test writes, also wrongly.
#[derive(Clone, Default)]
pub struct Ledger {
    pub events: Arc<Mutex<Vec<Event>>>,
    /// What is removed up to which position once the next read is answered, as the ledger's retention does at any time.
    pub removed_next: Arc<Mutex<Option<i64>>>,
}

#[tonic::async_trait]
impl EventService for Ledger {
    async fn read(&self, request: Request<ReadRequest>) -> Result<Response<ReadResponse>, Status> {
        let ReadRequest {
            after_position,
            limit,
        } = request.into_inner();
        let all = self.events.lock().expect("no panic").clone();
        if let Some(position) = self.removed_next.lock().expect("no panic").take() {
            let mut kept = self.events.lock().expect("no panic");
            kept.retain(|event| event.position > position);
        }
        let head_position = all.iter().map(|event| event.position).max().unwrap_or(0);
        let events = all
            .into_iter()
            .filter(|event| event.position > after_position)
            .take(usize::try_from(limit).expect("a limit"))
            .collect();
        Ok(Response::new(ReadResponse {
            events,
            head_position,
        }))
    }
}

impl Ledger {
    pub async fn channel(&self) -> GrpcChannel {
        serve(Routes::new(EventServiceServer::new(self.clone()))).await
    }

    pub fn set(&self, events: Vec<Event>) {
        *self.events.lock().expect("no panic") = events;
    }

    pub fn push(&self, event: Event) {
        self.events.lock().expect("no panic").push(event);
    }
}

/// A database with a published price, and everything to turn events into usage.
pub struct World {
    pub db: TestDb,
    pub pool: PgPool,
    pub ledger: Ledger,
    pub scheduler: Scheduler,
    pub consumer: Consumer,
    pub reconciler: Reconciler,
    pub price_version: Uuid,
    pub registry: Registry,
    _meters: SdkMeterProvider,
}

pub const PRICE_NANOS: i64 = 2_500_000_001;

impl World {
    pub async fn new() -> Self {
        let db = TestDb::create().await;
        let pool = db.pool(ROLE).await;
        let ledger = Ledger::default();
        let (meter, meters, registry) = telemetry::meter("billing").expect("meter");
        let metrics = Metrics::new(&meter);
        let channel = ledger.channel().await;
        let consumer = Consumer {
            pool: pool.clone(),
            ids: IdGen::new(1),
            ledger: channel.clone(),
            policy: HostLost::Charge,
            limit: db::PASS,
            metrics: metrics.clone(),
        };
        let reconciler = Reconciler {
            pool: pool.clone(),
            ledger: channel,
            page: reconciler::PAGE,
            metrics,
        };
        let price_version = Uuid::now_v7();
        insert_price(&pool, price_version, PRICE_NANOS).await;
        Self {
            db,
            pool,
            ledger,
            scheduler: Scheduler::default(),
            consumer,
            reconciler,
            price_version,
            registry,
            _meters: meters,
        }
    }

    /// `allocation.active` as the ledger writes it.
    pub fn active(&self, position: i64, allocation: Uuid, project: Uuid, at: Timestamp) -> Event {
        let mut event = event(position, "allocation.active", allocation, project, at);
        event.data = Some(active_data(self.price_version, 2));
        event
    }

    /// One allocation's lifecycle at positions `first..first + 5`, billable for 90 s.
    pub fn lifecycle(&self, first: i64, allocation: Uuid, project: Uuid) -> Vec<Event> {
        let step =
            |n: i64, kind: &str, time: i64| event(first + n, kind, allocation, project, at(time));
        vec![
            step(0, "allocation.reserved", 0),
            step(1, "allocation.provisioning", 1_000_000),
            self.active(first + 2, allocation, project, at(10_000_000)),
            step(3, "allocation.releasing", 100_000_000),
            step(4, "allocation.released", 120_000_000),
        ]
    }

    /// The API, with the price publisher behind it.
    pub async fn api(&self) -> Api {
        let scheduler = self.scheduler.channel().await;
        let (pool, metrics) = (self.pool.clone(), self.consumer.metrics.clone());
        let publisher = Publisher {
            pool: pool.clone(),
            ledger: scheduler.clone(),
            metrics,
        };
        let wake = Wake::new(None).expect("no redis");
        Api {
            pool,
            ids: IdGen::new(1),
            scheduler,
            publisher,
            wake,
        }
    }

    pub async fn position(&self) -> i64 {
        gpuaas_billing::store::position::read(&self.pool)
            .await
            .expect("position")
    }

    /// (allocation, start, end) of all intervals, by the position that opened them.
    pub async fn intervals(
        &self,
    ) -> Vec<(Uuid, jiff_sqlx::Timestamp, Option<jiff_sqlx::Timestamp>)> {
        sqlx::query_as("SELECT allocation_id, started_at, ended_at FROM usage_intervals ORDER BY opened_position")
            .fetch_all(&self.pool)
            .await
            .expect("intervals")
    }

    /// What `/metrics` shows for a metric, label text included.
    pub fn metric(&self, line_start: &str) -> Option<String> {
        let mut text = String::new();
        prometheus::TextEncoder::new()
            .encode_utf8(&self.registry.gather(), &mut text)
            .expect("encodes");
        text.lines()
            .find(|line| line.starts_with(line_start))
            .map(str::to_owned)
    }
}

/// A request as the server's access layer hands it over.
pub fn as_caller<T>(projects: &[Uuid], admin: bool, key: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.extensions_mut().insert(Caller {
        principal: "user:alice".to_owned(),
        projects: projects.to_vec(),
        platform_role: admin.then_some(PlatformRole::Admin),
        action: None,
        request_id: "r-1".to_owned(),
        idempotency_key: (!key.is_empty()).then(|| key.to_owned()),
    });
    request
}

pub async fn insert_price(pool: &PgPool, id: Uuid, nanos: i64) {
    sqlx::query(
        "INSERT INTO price_versions (id, sku, currency, price_nanos, effective_at)
         VALUES ($1, $2, 'EUR', $3, clock_timestamp())",
    )
    .bind(id)
    .bind(SKU)
    .bind(nanos)
    .execute(pool)
    .await
    .expect("price");
}

pub fn event(position: i64, kind: &str, allocation: Uuid, project: Uuid, at: Timestamp) -> Event {
    Event {
        position,
        r#type: kind.to_owned(),
        aggregate_id: allocation.to_string(),
        revision: 1,
        time: Some(proto_time(at)),
        project_id: project.to_string(),
        data: None,
        traceparent: String::new(),
    }
}

fn value(kind: Kind) -> Value {
    Value { kind: Some(kind) }
}

pub fn text(text: &str) -> Value {
    value(Kind::StringValue(text.to_owned()))
}

pub fn number(number: f64) -> Value {
    value(Kind::NumberValue(number))
}

pub fn price(currency: &str, nanos: i64) -> Value {
    let fields = [
        ("currency", text(currency)),
        ("nanos_per_gpu_hour", text(&nanos.to_string())),
    ];
    let fields = fields.map(|(name, value)| (name.to_owned(), value)).into();
    value(Kind::StructValue(Struct { fields }))
}

pub fn active_data(price_version: Uuid, gpu_count: u32) -> Struct {
    let claim = Struct {
        fields: [
            ("slot_index".to_owned(), number(0.0)),
            ("kind".to_owned(), text("slot")),
        ]
        .into(),
    };
    let claims = ListValue {
        values: vec![value(Kind::StructValue(claim))],
    };
    let fields = [
        ("sku", text(SKU)),
        ("gpu_count", number(f64::from(gpu_count))),
        ("price_version_id", text(&price_version.to_string())),
        ("price", price("EUR", PRICE_NANOS)),
        ("claims", value(Kind::ListValue(claims))),
    ];
    Struct {
        fields: fields
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    }
}

/// A time in the test's own calendar, in microseconds since its start.
pub fn at(microseconds: i64) -> Timestamp {
    Timestamp::from_microsecond(1_790_000_000_000_000 + microseconds).expect("in range")
}

/// Waits until `reached`, at most half a minute.
pub async fn eventually<F: Future<Output = bool>>(what: &str, mut reached: impl FnMut() -> F) {
    until(what, Duration::from_secs(30), async || {
        reached().await.then_some(())
    })
    .await;
}
