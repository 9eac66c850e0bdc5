//! Tests of parsing, hashing and checking a create request.
use super::*;

const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ5RIRSWuoMeRQ4lzYiAGnlZlrscLnqIWDRZpUAXh5Bl";

fn good() -> CreateAllocationRequest {
    CreateAllocationRequest {
        name: "web".into(),
        region_code: "lab-1".into(),
        sku: "lab-slice".into(),
        gpu_count: 1,
        image: "lab-mini".into(),
        ssh_public_keys: vec![KEY.into()],
        ..CreateAllocationRequest::default()
    }
}

#[test]
fn the_first_broken_rule_in_order_is_reported() {
    let mut request = CreateAllocationRequest {
        scheduler_type: "x".into(),
        ..Default::default()
    };
    request.labels.insert("not a key".into(), String::new());
    let field_of = |request: &CreateAllocationRequest| {
        CreateRequest::parse(request).map_or_else(|error| error.field, |_| "ok".into())
    };
    let mut seen: Vec<String> = vec![field_of(&request)];
    for fix in [
        (|r: &mut CreateAllocationRequest| r.name = "web".into())
            as fn(&mut CreateAllocationRequest),
        |r| r.region_code = "lab-1".into(),
        |r| r.sku = "lab-slice".into(),
        |r| r.gpu_count = 1,
        |r| r.image = "lab-mini".into(),
        |r| r.ssh_public_keys = vec![KEY.into()],
        |r| r.labels.clear(),
        |r| r.scheduler_type = "slice".into(),
    ] {
        fix(&mut request);
        seen.push(field_of(&request));
    }
    assert_eq!(
        seen,
        [
            "name",
            "region_code",
            "sku",
            "gpu_count",
            "image",
            "ssh_public_keys",
            "labels",
            "scheduler_type",
            "ok"
        ]
    );
}

/// H-12.
#[test]
fn b_13_scheduler_type_is_the_shape_by_another_name() {
    let shape = |capacity_shape: CapacityShape, scheduler_type: &str| {
        let request = CreateAllocationRequest {
            capacity_shape: capacity_shape.into(),
            scheduler_type: scheduler_type.into(),
            ..good()
        };
        CreateRequest::parse(&request)
            .map(|r| r.shape.map(|s| s.shape))
            .map_err(|e| e.field)
    };
    use CapacityShape::{Baremetal, GpuSlice, Unspecified};
    assert_eq!(shape(Unspecified, ""), Ok(None));
    assert_eq!(shape(Unspecified, "slice"), Ok(Some(GpuSlice)));
    assert_eq!(shape(Unspecified, "baremetal"), Ok(Some(Baremetal)));
    assert_eq!(shape(GpuSlice, "slice"), Ok(Some(GpuSlice)));
    assert_eq!(shape(Baremetal, "slice"), Err("scheduler_type".into()));
    assert_eq!(shape(Unspecified, "Slice"), Err("scheduler_type".into()));
    let unknown = CreateAllocationRequest {
        capacity_shape: 9,
        ..good()
    };
    assert_eq!(
        CreateRequest::parse(&unknown).unwrap_err().field,
        "capacity_shape"
    );
}

#[test]
fn the_hash_covers_every_part_and_ignores_how_a_key_is_spaced() {
    let hash = |r: &CreateAllocationRequest| CreateRequest::parse(r).expect("legal").hash("p");
    let base = hash(&good());
    let spaced = CreateAllocationRequest {
        ssh_public_keys: vec![format!(" {KEY}  ")],
        ..good()
    };
    assert_eq!(base, hash(&spaced));
    let labels = [("a".to_owned(), "b".to_owned())].into();
    for other in [
        CreateAllocationRequest {
            name: "web2".into(),
            ..good()
        },
        CreateAllocationRequest {
            region_code: "lab-2".into(),
            ..good()
        },
        CreateAllocationRequest {
            sku: "lab-slice2".into(),
            ..good()
        },
        CreateAllocationRequest {
            gpu_count: 2,
            ..good()
        },
        CreateAllocationRequest {
            user_data: "#cloud-config\n".into(),
            ..good()
        },
        CreateAllocationRequest {
            image: "lab-mini2".into(),
            ..good()
        },
        CreateAllocationRequest {
            ssh_public_keys: vec![format!("{KEY} me")],
            ..good()
        },
        CreateAllocationRequest { labels, ..good() },
        CreateAllocationRequest {
            scheduler_type: "slice".into(),
            ..good()
        },
    ] {
        assert_ne!(base, hash(&other), "{other:?}");
    }
    let parsed = CreateRequest::parse(&good()).expect("legal");
    assert_ne!(parsed.hash("p"), parsed.hash("q"));
}

#[test]
fn p4_no_label_looks_like_another_part_of_a_request() {
    let parsed = |r: &CreateAllocationRequest| CreateRequest::parse(r).expect("legal");
    let labelled = CreateAllocationRequest {
        labels: [("wait".to_owned(), "1790000000.0".to_owned())].into(),
        ..good()
    };
    let waiting = CreateAllocationRequest {
        wait: Some(Wait {
            deadline: Some(prost_types::Timestamp {
                seconds: 1_790_000_000,
                nanos: 0,
            }),
        }),
        ..good()
    };
    let (labelled, waiting) = (parsed(&labelled), parsed(&waiting));
    assert_ne!(labelled.hash("p"), waiting.hash("p"));
    assert_eq!(labelled.former_hash("p"), waiting.former_hash("p"));
    assert_ne!(labelled.hash("p"), labelled.former_hash("p"));
    assert_eq!(waiting.hash("p"), waiting.former_hash("p"));
    // nor like the mark of labels in the hash of another one
    let marked = CreateAllocationRequest {
        labels: [
            ("labels".to_owned(), "1".to_owned()),
            ("wait".to_owned(), "1790000000.0".to_owned()),
        ]
        .into(),
        ..good()
    };
    assert_ne!(parsed(&marked).former_hash("p"), labelled.hash("p"));
}

#[test]
fn sku_and_image_are_held_against_the_request() {
    let request = CreateRequest::parse(&good()).expect("legal");
    let sku = Sku {
        code: "lab-slice".into(),
        capacity_shape: CapacityShape::GpuSlice.into(),
        allowed_gpu_counts: vec![1],
        ..Sku::default()
    };
    assert_eq!(request.check_sku(&sku), Ok(CapacityShape::GpuSlice));
    let metal = CreateAllocationRequest {
        scheduler_type: "baremetal".into(),
        ..good()
    };
    let refusal = CreateRequest::parse(&metal)
        .expect("legal")
        .check_sku(&sku)
        .unwrap_err();
    assert_eq!(
        (refusal.reason, refusal.field),
        (ErrorReason::FieldInvalid, "scheduler_type")
    );

    let image = |status: ImageStatus, sku: &str| Image {
        slug: "lab-mini".into(),
        status: status.into(),
        compatible_skus: vec![sku.into()],
        ..Image::default()
    };
    assert_eq!(
        request.check_image(&image(ImageStatus::Active, "lab-slice")),
        Ok(())
    );
    let reason = |image: &Image| request.check_image(image).unwrap_err().reason;
    assert_eq!(
        reason(&image(ImageStatus::Disabled, "lab-slice")),
        ErrorReason::ImageNotActive
    );
    assert_eq!(
        reason(&image(ImageStatus::Active, "other")),
        ErrorReason::ImageNotCompatible
    );
}

#[test]
fn user_data_is_refused_by_its_field_and_never_written_out() {
    let with = |user_data: &str| {
        CreateRequest::parse(&CreateAllocationRequest {
            user_data: user_data.into(),
            ..good()
        })
    };
    for (data, rule) in [
        ("#".repeat(1 << 20), "must be at most 16384 bytes"),
        ("#!/bin/sh\n\0".to_owned(), "must be text without NUL"),
        ("aGVsbG8=".to_owned(), "must be plain text, not base64"),
    ] {
        let error = with(&data).expect_err(rule);
        assert_eq!(error.field, "user_data");
        assert!(error.rule.starts_with(rule), "{}", error.rule);
    }
    let parsed = with("#!/bin/sh\nsecret").expect("legal");
    assert!(!format!("{parsed:?}").contains("secret"));
    let hash = |data: &str| with(data).expect("legal").hash("p");
    assert_ne!(hash("#!/bin/sh\n1"), hash("#!/bin/sh\n2"));
    assert_eq!(
        hash(""),
        CreateRequest::parse(&good()).expect("legal").hash("p"),
        "launches without keep their hashes"
    );
    let bare = Sku {
        capacity_shape: CapacityShape::Baremetal.into(),
        ..Sku::default()
    };
    let refusal = parsed.check_sku(&bare).expect_err("bare metal");
    assert_eq!(refusal.field, "user_data");
    assert!(with("").expect("legal").check_sku(&bare).is_ok());
}
