//! What is requested of a SKU, as the decision needs it.
use gpuaas_placement_decision::{self as decision, GpuCount, ImageKey};

use crate::catalog::Sku;
use crate::model::Request;

/// A SKU's request for so many GPUs, as the decision needs it.
pub(crate) fn decision_request(sku: &Sku, gpu_count: GpuCount) -> decision::Request {
    let memory_mib =
        u64::from(gpu_count.get()) * u64::from(sku.profile.memory_mib_per_gpu.unsigned_abs());
    decision::Request {
        gpu_count,
        slot_class: sku.slot_class,
        hugepages_1g: if sku.profile.hugepages {
            u32::try_from(memory_mib.div_ceil(1024)).unwrap_or(u32::MAX)
        } else {
            0
        },
        image: None,
        prewarmed: false,
    }
}

/// A launch, as the decision needs it.
pub(crate) fn launch_request(sku: &Sku, launch: &Request) -> decision::Request {
    decision::Request {
        image: ImageKey::of(&launch.image.digest),
        prewarmed: launch.constraints.require_prewarmed,
        ..decision_request(sku, launch.gpu_count)
    }
}
