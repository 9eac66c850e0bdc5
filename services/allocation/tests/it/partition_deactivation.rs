//! D-82: an NVSwitch partition that is active without an owner, its row in the comparison of its node, and its deactivation.
use std::time::Duration;

use gpuaas_common::Error;
use gpuaas_dev::until::until;
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tonic::Code;
use uuid::Uuid;

use crate::platform::{Platform, good};
use crate::world::World;

impl Platform {
    fn deactivation_of(&self, partition_id: u32) -> pb::DeactivatePartitionRequest {
        pb::DeactivatePartitionRequest {
            node_id: self.world.node_id.to_string(),
            partition_id,
            reason: "activated by hand".into(),
        }
    }

    async fn deactivate_partition(
        &self,
        request: &pb::DeactivatePartitionRequest,
        key: &str,
    ) -> Result<(), Error> {
        let request = self.admin(request.clone(), Some(key));
        let deactivated = self.admins.clone().deactivate_partition(request).await;
        deactivated.map(drop).map_err(Error::from)
    }

    /// Waits until the host has found what there is, and returns the rows.
    async fn rows_of_partitions(&self, count: usize) -> Vec<pb::NodeDifference> {
        until("the rows", Duration::from_secs(30), async || {
            let rows = self.differences().await;
            (rows.len() == count).then_some(rows)
        })
        .await
    }
}

#[tokio::test]
async fn d_82_a_partition_of_nobody_is_a_row_and_deactivated_at_an_operators_word_and_a_claimed_one_is_not()
 {
    let platform = Platform::of(
        World::with_board().await,
        gpuaas_scheduler::Config::default(),
        World::config(),
    )
    .await;
    let world = &platform.world;
    world.host_gone().await;
    world.host.look();
    world.host_up().await;
    let created = platform.create(good("web"), "key-1").await;
    let id: Uuid = created.expect("created").id.parse().expect("a uuid");
    world.until_state(id, "active").await;
    world.until_idle(id).await;
    let owned: Vec<u32> = world
        .host
        .partitions()
        .iter()
        .map(|id| id.parse().expect("a number"))
        .collect();
    let [own] = owned[..] else {
        panic!("{owned:?}");
    };
    assert!(platform.differences().await.is_empty());
    // one of one GPU, which no slot of this host has
    world.host.set_partitions(&[own, 14]);
    let rows = platform.rows_of_partitions(1).await;
    let row = &rows[0];
    assert_eq!(
        (row.subject(), &*row.kind, &*row.observed),
        (
            pb::NodeDifferenceSubject::Partition,
            "partition_unowned",
            "14"
        )
    );
    assert_eq!(
        row.correction(),
        pb::ComparisonCorrection::DeactivatePartition
    );
    let by_correction = pb::CompareNodeRequest {
        node_id: platform.world.node_id.to_string(),
        filter: "correction = deactivate_partition".into(),
        ..pb::CompareNodeRequest::default()
    };
    let request = platform.admin(by_correction, None);
    let selected = platform.admins.clone().compare_node(request).await;
    let selected = selected.expect("selected").into_inner();
    assert_eq!((selected.rows.len(), selected.differences.len()), (0, 1));

    let fine = platform.deactivation_of(14);
    let user = platform.user(fine.clone(), Some("k"));
    let denied = platform.admins.clone().deactivate_partition(user).await;
    assert_eq!(denied.expect_err("no admin").code(), Code::PermissionDenied);
    let without = pb::DeactivatePartitionRequest {
        reason: String::new(),
        ..fine.clone()
    };
    let refused = platform.deactivate_partition(&without, "k").await;
    assert_eq!(
        refused.expect_err("no reason").reason(),
        ErrorReason::FieldRequired
    );
    for claimed in [own, 13] {
        let request = platform.deactivation_of(claimed);
        let refused = platform.deactivate_partition(&request, "k").await;
        assert_eq!(
            refused.expect_err("none of nobody").reason(),
            ErrorReason::StateConflict
        );
    }
    let both = vec![own.to_string(), "14".to_owned()];
    assert_eq!(world.host.partitions(), both, "nothing was changed");

    for _again in 0..2 {
        platform
            .deactivate_partition(&fine, "k1")
            .await
            .expect("done");
        assert_eq!(world.host.partitions(), [own.to_string()]);
    }
    assert!(platform.differences().await.is_empty());
    let late = platform.deactivate_partition(&fine, "k2").await;
    assert_eq!(late.expect_err("gone").reason(), ErrorReason::StateConflict);
    let on_record: Vec<(String, String, i64)> = sqlx::query_as(
        "SELECT detail->>'finding', detail->>'reason', (detail->>'partition_id')::bigint
           FROM placement.audit WHERE action = 'node.deactivate_partition'",
    )
    .fetch_all(&world.owner)
    .await
    .expect("audit rows");
    let one = ("partition_unowned".into(), "activated by hand".into(), 14);
    assert_eq!(on_record, [one]);
}
