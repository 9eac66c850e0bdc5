//! SKUs, quotas, availability: what people see and administrators change.
use gpuaas_common::identity::Caller;
use gpuaas_proto::gpuaas::common::v1::CapacityShape;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::scheduler::v1::placement_service_server::PlacementService as _;
use gpuaas_proto::gpuaas::internal::scheduler::v1::{GetSkuRequest, PutRegionRequest};
use gpuaas_proto::gpuaas::scheduler::v1::availability_service_server::AvailabilityService as _;
use gpuaas_proto::gpuaas::scheduler::v1::sku_admin_service_server::SkuAdminService as _;
use gpuaas_proto::gpuaas::scheduler::v1::sku_service_server::SkuService as _;
use gpuaas_proto::gpuaas::scheduler::v1::{
    ListAvailabilityRequest, ListSkusRequest, PutProjectQuotaRequest, PutSkuRequest,
    RuntimeProfile, Sku,
};
use serde_json::Value;
use tonic::{Code, Request};
use uuid::Uuid;

use crate::world::{LAB, REGION, World, by, lab_price, lab_sku, node, ok, refused, reservation};

#[tokio::test]
async fn a_sku_is_put_once_per_key_and_audited() {
    let world = World::new().await;
    let put = async |sku: Sku, key: Option<&str>| {
        world
            .api
            .put_sku(by(PutSkuRequest { sku: Some(sku) }, key))
            .await
    };
    assert_eq!(
        refused(put(lab_sku(), None).await).reason(),
        ErrorReason::IdempotencyKeyMissing
    );
    let first = ok(put(lab_sku(), Some("k1")).await);
    assert!(first.lab && first.price_per_gpu_hour.is_none());
    assert_eq!(ok(put(lab_sku(), Some("k1")).await), first);
    assert_eq!(
        world
            .number("SELECT count(*) FROM placement.audit WHERE action = 'sku.put'")
            .await,
        1
    );
    let other = Sku {
        display_name: "Other".into(),
        ..lab_sku()
    };
    assert_eq!(
        refused(put(other.clone(), Some("k1")).await).reason(),
        ErrorReason::IdempotencyKeyReused
    );
    assert_eq!(ok(put(other, Some("k2")).await).display_name, "Other");
    let error = refused(
        put(
            Sku {
                code: "cheap".into(),
                ..lab_sku()
            },
            Some("k3"),
        )
        .await,
    );
    assert_eq!(
        (error.code(), error.fields()[0].0.as_str()),
        (Code::InvalidArgument, "sku")
    );
    for (bad, field) in [
        (
            Sku {
                code: "Bad Code".into(),
                ..lab_sku()
            },
            "sku.code",
        ),
        (
            Sku {
                slot_class: "gpu".into(),
                ..lab_sku()
            },
            "sku.slot_class",
        ),
        (
            Sku {
                capacity_shape: 0,
                ..lab_sku()
            },
            "sku.capacity_shape",
        ),
        (
            Sku {
                profile: None,
                ..lab_sku()
            },
            "sku.profile",
        ),
        (
            Sku {
                profile: Some(RuntimeProfile {
                    name: "p".into(),
                    ..RuntimeProfile::default()
                }),
                ..lab_sku()
            },
            "sku.profile.vcpus_per_gpu",
        ),
        (
            Sku {
                profile: lab_sku().profile.map(|profile| RuntimeProfile {
                    network_burst_kb: Some(64),
                    ..profile
                }),
                ..lab_sku()
            },
            "sku.profile.network_burst_kb",
        ),
    ] {
        assert_eq!(refused(put(bad, Some("k4")).await).fields()[0].0, field);
    }
}

#[tokio::test]
async fn a_sku_that_somebody_changed_meanwhile_is_not_replaced() {
    let (world, ..) = World::with_slots(1).await;
    let put = async |name: &str, etag: &str, key: &str| {
        let sku = Sku {
            display_name: name.to_owned(),
            etag: etag.to_owned(),
            ..lab_sku()
        };
        let request = PutSkuRequest { sku: Some(sku) };
        world.api.put_sku(by(request, Some(key))).await
    };
    let read = async || {
        let request = by(ListSkusRequest::default(), None);
        let skus = ok(world.api.list_skus(request).await).skus;
        skus.into_iter()
            .find(|one| one.code == LAB)
            .expect("listed")
    };
    let first = read().await.etag;
    ok(world.api.put_sku_price(Request::new(lab_price(1))).await);
    assert_eq!(read().await.etag, first, "a price is no change of the SKU");
    let second = ok(put("Second", &first, "e1").await);
    assert_ne!(second.etag, first);
    let late = refused(put("Third", &first, "e2").await);
    assert_eq!(
        (late.code(), late.reason(), late.fields()[0].0.as_str()),
        (Code::Aborted, ErrorReason::EtagStale, "etag")
    );
    assert_eq!(read().await, second, "nothing has changed");
    let again = ok(put("Second", &first, "e1").await);
    assert_eq!(again, second, "a repeat");
    // one that does not exist was never read
    let sku = Sku {
        code: "h200-new".into(),
        slot_class: "h200_sxm".into(),
        etag: first,
        ..lab_sku()
    };
    let request = PutSkuRequest { sku: Some(sku) };
    let never = refused(world.api.put_sku(by(request, Some("e3"))).await);
    assert_eq!(never.reason(), ErrorReason::EtagStale);
}

/// The tables of SKUs and of nodes have two keys each that begin with the name: whichever of them the calls meet at, none fails.
#[tokio::test]
async fn of_puts_of_one_new_sku_or_node_at_once_one_creates_it() {
    let (world, ..) = World::with_slots(1).await;
    for round in 0..20 {
        let sku = Sku {
            code: format!("h200-{round}"),
            slot_class: "h200_sxm".into(),
            ..lab_sku()
        };
        let node = node();
        let puts = (0..8).map(async |n| {
            let request = PutSkuRequest {
                sku: Some(sku.clone()),
            };
            let key = format!("at-once-{round}-{n}");
            ok(world.api.put_sku(by(request, Some(&key))).await);
        });
        futures::future::join_all(puts).await;
        let puts = (0..8).map(async |_| ok(world.api.put_node(Request::new(node.clone())).await));
        futures::future::join_all(puts).await;
    }
    let created = "SELECT count(*) FROM placement.audit
        WHERE action = 'sku.put' AND resource_id LIKE 'h200-%' AND NOT detail ? 'before_digest'";
    assert_eq!(world.number(created).await, 20);
    let nodes = world.number("SELECT count(*) FROM placement.nodes").await;
    assert_eq!(nodes, 21);
}

#[tokio::test]
async fn skus_are_listed_in_pages_with_their_price() {
    let (world, ..) = World::with_slots(1).await;
    for code in ["h200-a", "h200-b"] {
        let sku = Sku {
            code: code.into(),
            slot_class: "h200_sxm".into(),
            ..lab_sku()
        };
        ok(world
            .api
            .put_sku(by(PutSkuRequest { sku: Some(sku) }, Some(code)))
            .await);
    }
    let list = async |size: i32, token: &str| {
        world
            .api
            .list_skus(by(
                ListSkusRequest {
                    page_size: size,
                    page_token: token.into(),
                    ..Default::default()
                },
                None,
            ))
            .await
    };
    let first = ok(list(2, "").await);
    assert_eq!(
        first
            .skus
            .iter()
            .map(|sku| sku.code.as_str())
            .collect::<Vec<_>>(),
        ["h200-a", "h200-b"]
    );
    let select = async |filter: &str, order_by: &str| {
        let request = ListSkusRequest {
            filter: filter.into(),
            order_by: order_by.into(),
            ..Default::default()
        };
        world.api.list_skus(by(request, None)).await
    };
    for (filter, order_by, expected) in [
        ("lab = true", "", vec![LAB]),
        ("NOT lab = true", "code desc", vec!["h200-b", "h200-a"]),
        ("slot_class = h200_sxm AND code:-A", "", vec!["h200-a"]),
    ] {
        let found = ok(select(filter, order_by).await).skus;
        let codes: Vec<_> = found.iter().map(|sku| sku.code.as_str()).collect();
        assert_eq!(codes, expected, "{filter}");
    }
    for (filter, order_by, field) in [("price > 1", "", "filter"), ("", "lab", "order_by")] {
        let error = refused(select(filter, order_by).await);
        assert_eq!(error.fields()[0].0, field, "{error:?}");
    }
    let rest = ok(list(2, &first.next_page_token).await);
    assert_eq!((rest.skus.len(), rest.next_page_token.as_str()), (1, ""));
    let mut member = by(ListSkusRequest::default(), None);
    if let Some(caller) = member.extensions_mut().get_mut::<Caller>() {
        caller.platform_role = None;
    }
    assert_eq!(
        ok(world.api.list_skus(member).await).skus,
        rest.skus,
        "a SKU without a price is shown to operators only"
    );
    assert_eq!(
        rest.skus[0].price_per_gpu_hour,
        lab_price(1).price_per_gpu_hour
    );
    assert_eq!(
        refused(list(2, "nonsense").await).reason(),
        ErrorReason::PageTokenInvalid
    );
    let same = ok(world
        .api
        .get_sku(Request::new(GetSkuRequest { code: LAB.into() }))
        .await);
    assert_eq!(same, rest.skus[0]);
    let unknown = refused(
        world
            .api
            .get_sku(Request::new(GetSkuRequest { code: "x".into() }))
            .await,
    );
    assert_eq!(
        (unknown.code(), unknown.reason()),
        (Code::NotFound, ErrorReason::SkuUnknown)
    );
    // an older price that arrives late changes nothing
    ok(world.api.put_sku_price(Request::new(lab_price(0))).await);
    assert_eq!(
        ok(world
            .api
            .get_sku(Request::new(GetSkuRequest { code: LAB.into() }))
            .await)
        .price_version_id,
        lab_price(1).price_version_id
    );
    let disabled = Sku {
        disabled: Some(true),
        ..lab_sku()
    };
    let put = async |sku: Sku, key: &str| {
        let request = PutSkuRequest { sku: Some(sku) };
        ok(world.api.put_sku(by(request, Some(key))).await)
    };
    let off = put(disabled, "disabled").await;
    assert!(
        off.disabled() && off.price_per_gpu_hour.is_some(),
        "{off:?}"
    );
    // who does not speak of it offers nothing again
    let renamed = Sku {
        display_name: "another name".to_owned(),
        disabled: None,
        ..lab_sku()
    };
    let put = put(renamed, "renamed").await;
    assert!(
        put.disabled() && put.display_name == "another name",
        "{put:?}"
    );
    let found = ok(select("disabled = true", "").await).skus;
    assert_eq!(found, [put]);
    let mut member = by(ListSkusRequest::default(), None);
    if let Some(caller) = member.extensions_mut().get_mut::<Caller>() {
        caller.platform_role = None;
    }
    assert_eq!(ok(world.api.list_skus(member).await).skus, []);
}

#[tokio::test]
async fn a_quota_refuses_with_what_is_held() {
    let (world, ..) = World::with_slots(2).await;
    let put = async |sku: &str, max_gpus: u32, key: &str| {
        let project_id = Uuid::from_u128(5).to_string();
        world
            .api
            .put_project_quota(by(
                PutProjectQuotaRequest {
                    project_id,
                    sku: sku.into(),
                    max_gpus,
                    ..PutProjectQuotaRequest::default()
                },
                Some(key),
            ))
            .await
    };
    assert_eq!(ok(put(LAB, 1, "q1").await).used_gpus, 0);
    ok(world.api.reserve(Request::new(reservation("a"))).await);
    let error = refused(world.api.reserve(Request::new(reservation("b"))).await);
    assert_eq!(
        (error.code(), error.reason()),
        (Code::ResourceExhausted, ErrorReason::Quota)
    );
    let replayed = ok(put(LAB, 1, "q1").await);
    assert_eq!((replayed.max_gpus, replayed.used_gpus), (1, 1));
    assert_eq!(
        refused(put("nothing", 1, "q2").await).reason(),
        ErrorReason::SkuUnknown
    );
    assert_eq!(
        world
            .number("SELECT count(*) FROM placement.audit WHERE action = 'quota.put'")
            .await,
        1
    );
}

#[tokio::test]
async fn availability_is_counted_and_explained() {
    let (world, ..) = World::with_slots(2).await;
    let list = async |region: &str, sku: &str| {
        let request = ListAvailabilityRequest {
            region_code: region.into(),
            sku: sku.into(),
            project_id: String::new(),
        };
        world.api.list_availability(by(request, None)).await
    };
    let rows = ok(list("", "").await).availability;
    assert_eq!(
        rows.iter()
            .map(|row| (row.gpu_count, row.fits))
            .collect::<Vec<_>>(),
        [(1, 2), (2, 1)]
    );
    ok(world.api.reserve(Request::new(reservation("a"))).await);
    let rows = ok(list(REGION, LAB).await).availability;
    assert_eq!((rows[0].fits, rows[1].fits), (1, 0));
    assert_eq!(rows[1].reasons[0].reason, "SLOTS_IN_USE");
    assert_eq!(
        refused(list("nowhere", "").await).reason(),
        ErrorReason::RegionUnknown
    );
    ok(world
        .api
        .put_region(Request::new(PutRegionRequest {
            code: REGION.into(),
            enabled: false,
            ..Default::default()
        }))
        .await);
    assert_eq!(
        ok(list(REGION, LAB).await).availability[0].reasons[0].reason,
        "REGION_DISABLED"
    );
}

/// A SKU as the HTTP API takes it, put by an administrator.
fn of_json(code: &str, body: &Value) -> Sku {
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let number = |value: &Value| u32::try_from(value.as_u64().expect("a number")).expect("small");
    let profile = &body["profile"];
    let counts = body["allowed_gpu_counts"].as_array().expect("counts");
    let shape = format!(
        "CAPACITY_SHAPE_{}",
        text(&body["capacity_shape"]).to_uppercase()
    );
    Sku {
        code: code.to_owned(),
        display_name: text(&body["display_name"]),
        capacity_shape: CapacityShape::from_str_name(&shape)
            .expect("a shape")
            .into(),
        slot_class: text(&body["slot_class"]),
        allowed_gpu_counts: counts.iter().map(number).collect(),
        profile: Some(RuntimeProfile {
            name: text(&profile["name"]),
            vcpus_per_gpu: number(&profile["vcpus_per_gpu"]),
            memory_mib_per_gpu: number(&profile["memory_mib_per_gpu"]),
            hugepages: profile["hugepages"].as_bool().unwrap_or_default(),
            ..RuntimeProfile::default()
        }),
        ..Sku::default()
    }
}

/// what a slot of the class is worth. The catalogue that a first start makes is one the product takes, and offers slices by that profile.
#[tokio::test]
async fn b_05_b_08_b_09_the_first_catalogue_offers_the_h200_slice_by_its_tuned_profile() {
    let world = World::new().await;
    for seeded in gpuaas_dev::seed::skus() {
        let sku = of_json(seeded.code, &seeded.body);
        let put = PutSkuRequest { sku: Some(sku) };
        ok(world.api.put_sku(by(put, Some(seeded.code))).await);
    }
    let code = "h200-sxm-slice".to_owned();
    let offered = ok(world
        .api
        .get_sku(Request::new(GetSkuRequest { code }))
        .await);
    assert_eq!(offered.capacity_shape(), CapacityShape::GpuSlice);
    assert_eq!(offered.slot_class, "h200_sxm");
    assert_eq!(offered.allowed_gpu_counts, [1, 2, 4, 8]);
    let tuned = RuntimeProfile {
        name: "h200_1g_24c_64g".into(),
        vcpus_per_gpu: 24,
        memory_mib_per_gpu: 64 << 10,
        hugepages: true,
        ..RuntimeProfile::default()
    };
    assert_eq!(offered.profile, Some(tuned));
    assert!(!offered.lab, "it is not offered on the emulated class");
}
