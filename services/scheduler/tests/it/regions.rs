//! Regions leave the ledger unless anything is or was in them; slots of a node are selected.
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::scheduler::v1::placement_service_server::PlacementService as _;
use gpuaas_proto::gpuaas::internal::scheduler::v1::{
    DeleteRegionRequest, ListSlotsRequest, ListSlotsResponse, PutRegionRequest,
};
use tonic::Request;

use crate::world::{REGION, World, ok, refused, reservation};

async fn delete(world: &World, code: &str) -> Vec<String> {
    let request = DeleteRegionRequest { code: code.into() };
    let answer = world.api.delete_region(Request::new(request)).await;
    ok(answer).used_by
}

async fn has(world: &World, code: &str) -> bool {
    let sql = format!("SELECT count(*) FROM placement.regions WHERE code = '{code}'");
    world.number(&sql).await == 1
}

#[tokio::test]
async fn a_region_that_anything_was_in_stays_in_the_ledger() {
    let (world, node_id, _) = World::with_slots(1).await;
    let put = PutRegionRequest {
        code: "slip".into(),
        enabled: true,
        ..Default::default()
    };
    ok(world.api.put_region(Request::new(put)).await);
    let made = ok(world.api.reserve(Request::new(reservation("a"))).await);
    let used_by = delete(&world, REGION).await;
    let node = world.number("SELECT count(*) FROM placement.nodes").await;
    assert_eq!((used_by.len(), node), (2, 1), "{used_by:?}");
    assert!(used_by[0].contains(&made.allocation_id), "{used_by:?}");
    assert!(used_by[1].contains(&node_id), "{used_by:?}");
    assert!(has(&world, REGION).await);
    for _ in 0..2 {
        assert!(delete(&world, "slip").await.is_empty());
        assert!(!has(&world, "slip").await);
    }
}

#[tokio::test]
async fn slots_of_a_node_are_selected_page_by_page() {
    let (world, node_id, slots) = World::with_slots(3).await;
    let list = async |filter: &str, order_by: &str, token: &str| {
        let request = ListSlotsRequest {
            node_id: node_id.clone(),
            page_size: 2,
            page_token: token.into(),
            filter: filter.into(),
            order_by: order_by.into(),
        };
        world.api.list_slots(Request::new(request)).await
    };
    let indexes = |page: &ListSlotsResponse| -> Vec<u32> {
        page.slots.iter().map(|slot| slot.slot_index).collect()
    };
    let first = ok(list("", "slot_index desc", "").await);
    assert_eq!(indexes(&first), [2, 1]);
    let token = &first.next_page_token;
    let last = ok(list("", "slot_index desc", token).await);
    assert_eq!(indexes(&last), [0]);
    assert_eq!(last.next_page_token, "");
    let of_other = refused(list("disabled = false", "slot_index desc", token).await);
    assert_eq!(of_other.reason(), ErrorReason::PageTokenInvalid);
    let held = ok(world.api.reserve(Request::new(reservation("a"))).await);
    for (filter, expected) in [
        (format!("allocation_id = {}", held.allocation_id), 1),
        ("status = reserved".to_owned(), 1),
        (
            "status = available AND health_state = healthy".to_owned(),
            2,
        ),
        (format!("id = {} OR slot_index > 1", slots[0].id), 2),
        ("slot_class = lab AND generation < 0".to_owned(), 0),
    ] {
        let found = ok(list(&filter, "health_state, update_time", "").await);
        assert_eq!(found.slots.len(), expected, "{filter}");
    }
    for (filter, order_by, field) in [
        ("status = sold", "", "filter"),
        ("", "allocation_id", "order_by"),
    ] {
        let error = refused(list(filter, order_by, "").await);
        assert_eq!(error.fields()[0].0, field);
    }
}
