//! The access option of every RPC, read from the contract: who may call what.
use std::collections::HashMap;
use std::sync::LazyLock;

use gpuaas_proto::gpuaas::options::v1::{Access, Audience};
use prost::Message as _;
use prost_reflect::MethodDescriptor;

const ACCESS_EXTENSION: &str = "gpuaas.options.v1.access";

/// The access option of a method; `None` when it declares none (foreign services such as health).
pub fn of_method(method: &MethodDescriptor) -> Option<Access> {
    let extension = method
        .parent_pool()
        .get_extension_by_name(ACCESS_EXTENSION)?;
    let options = method.options();
    if !options.has_extension(&extension) {
        return None;
    }
    let value = options.get_extension(&extension);
    Access::decode(value.as_message()?.encode_to_vec().as_slice()).ok()
}

// Constant data of the contract, computed once: not state.
static BY_PATH: LazyLock<HashMap<String, Access>> = LazyLock::new(|| {
    gpuaas_proto::pool()
        .services()
        .flat_map(|service| service.methods().collect::<Vec<_>>())
        .filter_map(|method| {
            let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
            of_method(&method).map(|access| (path, access))
        })
        .collect()
});

/// The access option by gRPC path, for example "/gpuaas.allocation.v1.AllocationService/GetAllocation".
pub fn of_path(path: &str) -> Option<&'static Access> {
    BY_PATH.get(path)
}

/// Whether the path is health or reflection, which any known peer may call.
pub fn is_introspection(path: &str) -> bool {
    path.starts_with("/grpc.health.v1.") || path.starts_with("/grpc.reflection.")
}

/// Whether the RPC is for people, by the gateway's internal token.
pub fn needs_token(access: &Access) -> bool {
    matches!(access.audience(), Audience::User | Audience::Admin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rpc_of_ours_declares_access() {
        for service in gpuaas_proto::pool()
            .services()
            .filter(|s| s.full_name().starts_with("gpuaas."))
        {
            for method in service.methods() {
                let access = of_method(&method)
                    .unwrap_or_else(|| panic!("{} has no access option", method.full_name()));
                assert!(
                    !access.action.is_empty() && !access.resource.is_empty(),
                    "{}",
                    method.full_name()
                );
                assert_ne!(
                    access.audience(),
                    Audience::Unspecified,
                    "{}",
                    method.full_name()
                );
                assert_eq!(
                    access.audience() == Audience::Service,
                    !access.callers.is_empty(),
                    "{}: callers go with audience SERVICE",
                    method.full_name()
                );
            }
        }
    }
}
