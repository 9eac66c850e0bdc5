//! SKUs and prices as the catalog takes them.
use std::collections::HashSet;

use gpuaas_common::{Error, Result, id};
use gpuaas_placement::catalog::Sku;
use gpuaas_placement::convert;
use gpuaas_placement::decision::GpuCount;
use gpuaas_placement::model::{Price, Profile, Shape};
use gpuaas_proto::google::r#type::Money;
use gpuaas_proto::gpuaas::scheduler::v1 as public;

use super::parse::{class, label, signed};

fn positive(field: &str, number: u32) -> Result<i32> {
    match signed(field, number)? {
        0 => Err(Error::invalid(field, "must be at least 1")),
        number => Ok(number),
    }
}

/// Less memory than this boots no guest, in MiB.
const MIN_MEMORY_MIB: u32 = 128;

/// Memory per GPU that a guest can boot with.
fn memory(mib: u32) -> Result<i32> {
    let field = "sku.profile.memory_mib_per_gpu";
    if mib < MIN_MEMORY_MIB {
        return Err(Error::invalid(
            field,
            format!("must be at least {MIN_MEMORY_MIB} MiB"),
        ));
    }
    signed(field, mib)
}

/// Most megabits per second of a VM, and most kilobytes of a burst: what a host takes.
const MAX_NETWORK_MBPS: u32 = 1_000_000;
const MAX_NETWORK_BURST_KB: u32 = 250_000;

/// What a VM may send and receive, and the burst before that.
fn network(profile: &public::RuntimeProfile, shape: Shape) -> Result<(Option<i32>, Option<i32>)> {
    let limits = [
        (
            "sku.profile.network_mbps",
            profile.network_mbps,
            MAX_NETWORK_MBPS,
        ),
        (
            "sku.profile.network_burst_kb",
            profile.network_burst_kb,
            MAX_NETWORK_BURST_KB,
        ),
    ];
    for (field, limit, most) in limits {
        if shape == Shape::Baremetal && limit.is_some() {
            return Err(Error::invalid(field, "is not for bare metal"));
        }
        if limit.is_some_and(|limit| !(1..=most).contains(&limit)) {
            return Err(Error::invalid(field, format!("must be 1 to {most}")));
        }
    }
    if profile.network_burst_kb.is_some() && profile.network_mbps.is_none() {
        let rule = "needs network_mbps, the limit that it is for";
        return Err(Error::invalid("sku.profile.network_burst_kb", rule));
    }
    let [mbps, burst] = limits.map(|(field, limit, _)| limit.map(|limit| signed(field, limit)));
    Ok((mbps.transpose()?, burst.transpose()?))
}

/// A SKU; the price is not an input.
pub(super) fn sku(sku: public::Sku) -> Result<Sku> {
    label("sku.code", &sku.code)?;
    let capacity_shape = Shape::from_proto(sku.capacity_shape())
        .ok_or_else(|| Error::required("sku.capacity_shape"))?;
    let slot_class = class("sku.slot_class", &sku.slot_class)?;
    if sku.allowed_gpu_counts.is_empty() {
        return Err(Error::required("sku.allowed_gpu_counts"));
    }
    let distinct: HashSet<u32> = sku.allowed_gpu_counts.iter().copied().collect();
    if distinct.len() != sku.allowed_gpu_counts.len() {
        return Err(Error::invalid(
            "sku.allowed_gpu_counts",
            "must not repeat a count",
        ));
    }
    let mut allowed_gpu_counts = Vec::with_capacity(distinct.len());
    for count in sku.allowed_gpu_counts {
        let rule = "must be counts from 1 to 64";
        let count = GpuCount::new(count).filter(|count| count.get() <= 64);
        allowed_gpu_counts
            .push(count.ok_or_else(|| Error::invalid("sku.allowed_gpu_counts", rule))?);
    }
    let profile = sku.profile.ok_or_else(|| Error::required("sku.profile"))?;
    if profile.name.is_empty() {
        return Err(Error::required("sku.profile.name"));
    }
    let (network_mbps, network_burst_kb) = network(&profile, capacity_shape)?;
    let display_name = if sku.display_name.is_empty() {
        sku.code.clone()
    } else {
        sku.display_name
    };
    Ok(Sku {
        code: sku.code,
        display_name,
        capacity_shape,
        slot_class,
        allowed_gpu_counts,
        profile: Profile {
            vcpus_per_gpu: positive("sku.profile.vcpus_per_gpu", profile.vcpus_per_gpu)?,
            memory_mib_per_gpu: memory(profile.memory_mib_per_gpu)?,
            name: profile.name,
            hugepages: profile.hugepages,
            network_mbps,
            network_burst_kb,
        },
        price: None,
        disabled: sku.disabled.unwrap_or(false),
    })
}

/// A price version.
pub(super) fn price(version_id: &str, money: Option<&Money>) -> Result<Price> {
    let money = money.ok_or_else(|| Error::required("price_per_gpu_hour"))?;
    let currency = &money.currency_code;
    if currency.len() != 3 || !currency.chars().all(|c| c.is_ascii_uppercase()) {
        return Err(Error::invalid(
            "price_per_gpu_hour.currency_code",
            "must be three capital letters",
        ));
    }
    Ok(Price {
        version_id: id::parse("price_version_id", version_id)?,
        currency: currency.clone(),
        nanos_per_gpu_hour: convert::nanos_of(money).ok_or_else(|| {
            Error::invalid(
                "price_per_gpu_hour",
                "must not be negative, nanos from 0 to 999999999",
            )
        })?,
    })
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn b_06_a_sku_names_its_counts_once() {
        let sku = |counts: &[u32]| public::Sku {
            code: "h200-sxm-slice".into(),
            capacity_shape: 2,
            slot_class: "h200_sxm".into(),
            allowed_gpu_counts: counts.to_vec(),
            profile: Some(public::RuntimeProfile {
                name: "h200_1g_24c_64g".into(),
                vcpus_per_gpu: 24,
                memory_mib_per_gpu: 65536,
                hugepages: true,
                ..public::RuntimeProfile::default()
            }),
            ..public::Sku::default()
        };
        assert_eq!(
            super::sku(sku(&[1, 8])).expect("valid").allowed_gpu_counts,
            [1, 8].map(|count| GpuCount::new(count).expect("at least one"))
        );
        for bad in [&[][..], &[0], &[1, 1], &[65]] {
            let error = super::sku(sku(bad)).expect_err("refused");
            assert_eq!(error.fields()[0].0, "sku.allowed_gpu_counts");
        }
    }

    #[test]
    fn a_sku_has_memory_that_a_guest_can_boot_with() {
        for (mib, legal) in [
            (0, false),
            (1, false),
            (127, false),
            (128, true),
            (256, true),
        ] {
            assert_eq!(memory(mib).is_ok(), legal, "{mib}");
        }
        let error = memory(1).expect_err("refused");
        assert_eq!(error.fields()[0].0, "sku.profile.memory_mib_per_gpu");
    }

    #[test]
    fn d_60_a_sku_limits_the_network_of_its_vms_within_what_a_host_takes() {
        let of = |mbps, burst| public::RuntimeProfile {
            network_mbps: mbps,
            network_burst_kb: burst,
            ..public::RuntimeProfile::default()
        };
        for (mbps, burst) in [
            (None, None),
            (Some(1), None),
            (Some(MAX_NETWORK_MBPS), Some(MAX_NETWORK_BURST_KB)),
        ] {
            let limits = network(&of(mbps, burst), Shape::GpuSlice).expect("valid");
            let expected = [mbps, burst].map(|one: Option<u32>| one.map(u32::cast_signed));
            assert_eq!([limits.0, limits.1], expected);
        }
        for (mbps, burst, shape, field) in [
            (Some(0), None, Shape::GpuSlice, "network_mbps"),
            (
                Some(MAX_NETWORK_MBPS + 1),
                None,
                Shape::GpuSlice,
                "network_mbps",
            ),
            (Some(1), Some(0), Shape::GpuSlice, "network_burst_kb"),
            (
                Some(1),
                Some(MAX_NETWORK_BURST_KB + 1),
                Shape::GpuSlice,
                "network_burst_kb",
            ),
            (None, Some(1), Shape::GpuSlice, "network_burst_kb"),
            (Some(1), None, Shape::Baremetal, "network_mbps"),
        ] {
            let error = network(&of(mbps, burst), shape).expect_err("refused");
            assert_eq!(error.fields()[0].0, format!("sku.profile.{field}"));
        }
    }

    #[test]
    fn prices_are_exact_nano_units() {
        let money = |units, nanos| Money {
            currency_code: "USD".into(),
            units,
            nanos,
        };
        let id = Uuid::now_v7().to_string();
        assert_eq!(
            price(&id, Some(&money(2, 490_000_000)))
                .expect("valid")
                .nanos_per_gpu_hour,
            2_490_000_000
        );
        for bad in [
            money(-1, 0),
            money(0, -1),
            money(0, 1_000_000_000),
            money(i64::MAX, 0),
        ] {
            assert!(price(&id, Some(&bad)).is_err(), "{bad:?}");
        }
    }
}
