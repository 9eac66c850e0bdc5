//! What the descriptors say beyond names and types: comments, HTTP routes, access, required fields.
use prost_reflect::{
    DescriptorPool, DynamicMessage, EnumDescriptor, FieldDescriptor, FileDescriptor, Kind,
    MessageDescriptor, MethodDescriptor, ServiceDescriptor, Value,
};

/// Packages whose messages tenants and administrators see.
pub fn is_public(package: &str) -> bool {
    package.starts_with("gpuaas.")
        && !package.starts_with("gpuaas.internal.")
        && !package.starts_with("gpuaas.agent.")
        && !package.starts_with("gpuaas.options.")
}

/// Services of our packages by full name.
pub fn services(pool: &DescriptorPool) -> Vec<ServiceDescriptor> {
    let mut services: Vec<_> = pool
        .services()
        .filter(|service| service.full_name().starts_with("gpuaas."))
        .collect();
    services.sort_by(|a, b| a.full_name().cmp(b.full_name()));
    services
}

/// Leading comment of the element at a path of a file; empty when there is none.
fn comment(file: &FileDescriptor, path: &[i32]) -> String {
    let info = file.file_descriptor_proto().source_code_info.as_ref();
    let location = info.and_then(|info| info.location.iter().find(|l| l.path == path));
    let text = location.and_then(|location| location.leading_comments.as_deref());
    let lines = text.unwrap_or_default().lines().map(str::trim);
    lines.collect::<Vec<_>>().join(" ").trim().to_owned()
}

/// Comment of a service.
pub fn service_comment(service: &ServiceDescriptor) -> String {
    comment(&service.parent_file(), service.path())
}

/// Comment of an RPC.
pub fn method_comment(method: &MethodDescriptor) -> String {
    comment(&method.parent_file(), method.path())
}

/// Comment of a message.
pub fn message_comment(message: &MessageDescriptor) -> String {
    comment(&message.parent_file(), message.path())
}

/// Comment of a field.
pub fn field_comment(field: &FieldDescriptor) -> String {
    comment(&field.parent_file(), field.path())
}

/// Comment of an enum.
pub fn enum_comment(set: &EnumDescriptor) -> String {
    comment(&set.parent_file(), set.path())
}

/// Names of an enum's values as JSON shows them, with their comments; the unspecified value is left out.
pub fn enum_values(set: &EnumDescriptor) -> Vec<(String, String)> {
    let prefix = screaming(set.name());
    set.values()
        .filter(|value| value.number() != 0)
        .map(|value| {
            let short = value.name().strip_prefix(&prefix).unwrap_or(value.name());
            let short = short.trim_start_matches('_').to_lowercase();
            (short, comment(&set.parent_file(), value.path()))
        })
        .collect()
}

/// `SlotStatus` as `SLOT_STATUS`.
fn screaming(name: &str) -> String {
    let mut upper = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !upper.is_empty() {
            upper.push('_');
        }
        upper.push(c.to_ascii_uppercase());
    }
    upper
}

/// An HTTP binding of an RPC.
pub struct Route {
    /// For example "POST".
    pub verb: String,
    /// For example "/api/v1/allocations/{allocation_id}:release".
    pub path: String,
    /// Field that is the body, "*" for the rest of the request, or empty.
    pub body: String,
}

impl Route {
    /// Names in braces.
    pub fn path_fields(&self) -> Vec<&str> {
        let names = self.path.split('{').skip(1);
        names.filter_map(|part| part.split('}').next()).collect()
    }
}

/// The HTTP binding of an RPC, if it has one.
pub fn route(pool: &DescriptorPool, method: &MethodDescriptor) -> Option<Route> {
    let rule = option(pool, "google.api.http", &method.options())?;
    let body = text(&rule, "body");
    ["get", "put", "post", "delete", "patch"]
        .into_iter()
        .map(|verb| (verb, text(&rule, verb)))
        .find(|(_, path)| !path.is_empty())
        .map(|(verb, path)| Route {
            verb: verb.to_uppercase(),
            path,
            body,
        })
}

/// Who may call an RPC, for what.
pub struct Access {
    /// For example "allocation.create".
    pub action: String,
    /// For example "project".
    pub resource: String,
    /// For example "USER".
    pub audience: String,
    /// Services whose certificate may call.
    pub callers: Vec<String>,
}

/// The access option of an RPC.
pub fn access(pool: &DescriptorPool, method: &MethodDescriptor) -> Option<Access> {
    let access = option(pool, "gpuaas.options.v1.access", &method.options())?;
    let audience = access.get_field_by_name("audience")?.as_enum_number()?;
    let audiences = pool.get_enum_by_name("gpuaas.options.v1.Audience")?;
    let audience = audiences.get_value(audience)?;
    let callers = access.get_field_by_name("callers")?;
    let callers = callers.as_list().unwrap_or_default();
    Some(Access {
        action: text(&access, "action"),
        resource: text(&access, "resource"),
        audience: audience.name().trim_start_matches("AUDIENCE_").to_owned(),
        callers: callers
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
    })
}

/// Whether a request must carry the field.
pub fn is_required(pool: &DescriptorPool, field: &FieldDescriptor) -> bool {
    behaviour(pool, field, "REQUIRED")
}

/// Whether only the system sets the field.
pub fn is_output_only(pool: &DescriptorPool, field: &FieldDescriptor) -> bool {
    behaviour(pool, field, "OUTPUT_ONLY")
}

fn behaviour(pool: &DescriptorPool, field: &FieldDescriptor, name: &str) -> bool {
    let number = pool
        .get_enum_by_name("google.api.FieldBehavior")
        .and_then(|set| set.get_value_by_name(name))
        .map(|value| value.number());
    let Some(extension) = pool.get_extension_by_name("google.api.field_behavior") else {
        return false;
    };
    let options = field.options();
    let behaviours = options.get_extension(&extension);
    behaviours
        .as_list()
        .unwrap_or_default()
        .iter()
        .any(|value| value.as_enum_number() == number)
}

/// Whether the field carries host detail that tenants never see.
pub fn is_host_sensitive(pool: &DescriptorPool, field: &FieldDescriptor) -> bool {
    pool.get_extension_by_name("gpuaas.options.v1.host_sensitive")
        .is_some_and(|extension| {
            let options = field.options();
            options.get_extension(&extension).as_bool() == Some(true)
        })
}

/// Type of a field as text; a link to the page of messages where there is a section for it.
pub fn field_type(field: &FieldDescriptor) -> String {
    if field.is_map()
        && let Kind::Message(entry) = field.kind()
    {
        let value = entry.map_entry_value_field();
        return format!("map of {}", kind(&value.kind()));
    }
    let name = kind(&field.kind());
    if field.is_list() {
        format!("list of {name}")
    } else {
        name
    }
}

fn kind(kind: &Kind) -> String {
    match kind {
        Kind::Message(message) => linked(message.name(), message.full_name()),
        Kind::Enum(set) => linked(set.name(), set.full_name()),
        Kind::Int64 | Kind::Uint64 => format!("{kind:?}, a string in JSON"),
        _ => format!("{kind:?}"),
    }
}

/// Whether an enum has a page of its own, `errors.md`, in place of a section among the messages.
pub fn has_own_page(full_name: &str) -> bool {
    full_name == "gpuaas.errors.v1.ErrorReason"
}

/// The last part of a message's name, linked to its section when it is one of the public ones.
pub fn linked(name: &str, full_name: &str) -> String {
    if has_own_page(full_name) {
        return format!("[{name}](errors.md)");
    }
    let package = full_name
        .rsplit_once('.')
        .map_or("", |(package, _)| package);
    if is_public(package) {
        format!("[{name}](messages.md#{})", crate::markdown::slug(full_name))
    } else {
        format!("`{full_name}`")
    }
}

fn option(pool: &DescriptorPool, name: &str, options: &DynamicMessage) -> Option<DynamicMessage> {
    let extension = pool.get_extension_by_name(name)?;
    if !options.has_extension(&extension) {
        return None;
    }
    options.get_extension(&extension).as_message().cloned()
}

fn text(message: &DynamicMessage, field: &str) -> String {
    message
        .get_field_by_name(field)
        .and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn method(service: &str, name: &str) -> MethodDescriptor {
        let service = gpuaas_proto::pool()
            .get_service_by_name(service)
            .expect("service of the contract");
        let method = service.methods().find(|method| method.name() == name);
        method.expect("method of the service")
    }

    #[test]
    fn options_and_comments_are_read() {
        let pool = gpuaas_proto::pool();
        let release = method(
            "gpuaas.allocation.v1.AllocationService",
            "ReleaseAllocation",
        );
        let route = route(pool, &release).expect("has a route");
        assert_eq!(
            (
                route.verb.as_str(),
                route.path.as_str(),
                route.body.as_str()
            ),
            ("POST", "/api/v1/allocations/{allocation_id}:release", "*")
        );
        assert_eq!(route.path_fields(), ["allocation_id"]);
        let access = access(pool, &release).expect("has access");
        assert_eq!(
            (access.action.as_str(), access.audience.as_str()),
            ("allocation.release", "USER")
        );
        assert!(method_comment(&release).starts_with("ReleaseAllocation ends"));
        let field = release.input().get_field_by_name("allocation_id");
        assert!(is_required(pool, &field.expect("field")));
    }

    #[test]
    fn callers_are_read() {
        let read = method("gpuaas.internal.events.v1.EventService", "Read");
        let access = access(gpuaas_proto::pool(), &read).expect("has access");
        assert!(access.callers.iter().any(|caller| caller == "billing"));
    }

    #[test]
    fn every_link_of_a_type_leads_to_a_section_that_is_there() {
        let pool = gpuaas_proto::pool();
        assert_eq!(
            linked("ErrorReason", "gpuaas.errors.v1.ErrorReason"),
            "[ErrorReason](errors.md)"
        );
        let page = super::super::messages::page(pool);
        let sections: Vec<String> = page
            .lines()
            .filter_map(|line| line.strip_prefix("## "))
            .map(crate::markdown::slug)
            .collect();
        let types = pool.all_messages().map(|one| one.full_name().to_owned());
        let enums = pool.all_enums().map(|one| one.full_name().to_owned());
        for name in types.chain(enums) {
            let link = linked("it", &name);
            let Some((_, section)) = link.split_once("messages.md#") else {
                continue;
            };
            let section = section.trim_end_matches(')');
            let is_entry = pool
                .get_message_by_name(&name)
                .is_some_and(|message| message.is_map_entry());
            assert!(
                is_entry || sections.iter().any(|own| own == section),
                "{name}: {link}"
            );
        }
    }

    #[test]
    fn enum_values_are_those_of_json() {
        let set = gpuaas_proto::pool()
            .get_enum_by_name("gpuaas.common.v1.CapacityShape")
            .expect("enum of the contract");
        let names: Vec<String> = enum_values(&set)
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(names, ["baremetal", "gpu_slice"]);
    }
}
