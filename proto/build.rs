//! Compiles the contract: all `.proto` files below `gpuaas/`, the descriptor set that reflection, the gateway's
//! transcoder and the OpenAPI generator read, and the calls of the HTTP API.
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use prost::Message as _;
use protox::Compiler;
use protox::prost_reflect::{
    DescriptorPool, DynamicMessage, MessageDescriptor, MethodDescriptor, Value,
};
use tonic_prost_build::Config;

fn proto_files(dir: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = std::fs::read_dir(dir)
        .expect("readable proto folder")
        .flatten()
        .map(|e| e.path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            proto_files(&path, found);
        } else if path.extension().is_some_and(|e| e == "proto") {
            found.push(path);
        }
    }
}

fn main() {
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("set by cargo"));
    println!("cargo:rerun-if-changed={}", root.join("gpuaas").display());
    println!(
        "cargo:rerun-if-changed={}",
        root.join("third_party").display()
    );

    let mut files = Vec::new();
    proto_files(&root.join("gpuaas"), &mut files);
    // error details travel in the status trailer; nothing of ours imports them, the gateway reads them
    files.push(root.join("third_party/google/rpc/error_details.proto"));

    let mut compiler =
        Compiler::new([root.clone(), root.join("third_party")]).expect("include paths exist");
    compiler.include_imports(true).include_source_info(true);
    for file in &files {
        if let Err(error) = compiler.open_file(file) {
            panic!("{}: {error:?}", file.display());
        }
    }
    // encode_file_descriptor_set keeps the HTTP and access options as extensions
    let encoded = compiler.encode_file_descriptor_set();
    let pool = DescriptorPool::decode(encoded.as_slice()).expect("own descriptor set decodes");
    let descriptors = with_comments_alone(&pool, &encoded);
    std::fs::write(out.join("descriptors.bin"), descriptors).expect("write descriptors");
    std::fs::write(out.join("calls.rs"), calls(&pool)).expect("write calls");
    std::fs::write(out.join("methods.rs"), methods(&pool)).expect("write methods");

    let set = prost_types::FileDescriptorSet::decode(encoded.as_slice())
        .expect("own descriptor set decodes");
    std::fs::write(out.join("messages.bin"), messages(&set)).expect("write messages");
    std::fs::write(out.join("common.bin"), common(&set)).expect("write common messages");
    let mut config = Config::new();
    config.enable_type_names();
    tonic_prost_build::configure()
        // ordered maps make the encoding canonical, which request hashes rest on
        .btree_map(".")
        .include_file("all.rs")
        .compile_fds_with_config(set, config)
        .expect("generate code");
}

/// Leaves out where in its file each word stands, which nobody asks: of what is known of the source, comments stay. Every
/// program has the set in its file.
fn with_comments_alone(pool: &DescriptorPool, encoded: &[u8]) -> Vec<u8> {
    let kind = pool
        .get_message_by_name("google.protobuf.FileDescriptorSet")
        .expect("imported for options");
    // a message of the pool, because the types of prost lose the options that are extensions
    let mut set = DynamicMessage::decode(kind, encoded).expect("it is one");
    let files = set
        .get_field_by_name_mut("file")
        .and_then(Value::as_list_mut);
    for file in files.expect("files") {
        let file = file.as_message_mut().expect("a file");
        let source = file.get_field_by_name_mut("source_code_info");
        let source = source
            .and_then(Value::as_message_mut)
            .expect("of the source");
        let places = source.get_field_by_name_mut("location");
        let places = places.and_then(Value::as_list_mut).expect("places");
        places.retain(|place| {
            let place = place.as_message().expect("a place");
            let has = |field: &str| place.has_field_by_name(field);
            [
                "leading_comments",
                "trailing_comments",
                "leading_detached_comments",
            ]
            .into_iter()
            .any(has)
        });
    }
    set.encode_to_vec()
}

/// What the JSON of messages needs: no comments, no services, no options of the platform. Clients decode it at each start.
fn messages(set: &prost_types::FileDescriptorSet) -> Vec<u8> {
    let mut set = set.clone();
    for file in &mut set.file {
        file.source_code_info = None;
        file.service.clear();
    }
    set.encode_to_vec()
}

/// The messages of `gpuaas.common.v1` in the same form, with those that they are made of.
fn common(set: &prost_types::FileDescriptorSet) -> Vec<u8> {
    let mut needed = BTreeSet::new();
    // a file comes after those that it imports
    for file in set.file.iter().rev() {
        let name = file.name.clone().unwrap_or_default();
        if file.package.as_deref() == Some("gpuaas.common.v1") || needed.contains(&name) {
            needed.extend(file.dependency.iter().cloned());
            needed.insert(name);
        }
    }
    let mut common = set.clone();
    common
        .file
        .retain(|file| file.name.as_ref().is_some_and(|name| needed.contains(name)));
    let encoded = messages(&common);
    let pool = DescriptorPool::decode(encoded.as_slice()).expect("it lacks no file");
    assert!(
        pool.get_message_by_name("gpuaas.common.v1.HostInventory")
            .is_some(),
        "services look into it"
    );
    encoded
}

/// What servers ask of the contract at every call, by the path of the method: they need no descriptors for that.
fn methods(pool: &DescriptorPool) -> String {
    let access = pool
        .get_extension_by_name("gpuaas.options.v1.access")
        .expect("an option of the contract");
    let mut rows = BTreeMap::new();
    let services = pool.services();
    for method in services.flat_map(|service| service.methods().collect::<Vec<_>>()) {
        let options = method.options();
        if !options.has_extension(&access) {
            continue;
        }
        let option = options.get_extension(&access);
        let encoded = option.as_message().expect("a message").encode_to_vec();
        let service = method.parent_service();
        let path = format!("/{}/{}", service.full_name(), method.name());
        let is_read = http_rule(&method).is_some_and(|(verb, ..)| verb == "GET");
        rows.insert(path, (encoded, is_read));
    }
    let mut code = "/// Every method with an access option, by path.\n\
                    pub static METHODS: &[Method] = &[\n"
        .to_owned();
    for (path, (access, is_read)) in rows {
        writeln!(
            code,
            "    Method {{ path: {path:?}, access: &{access:?}, is_read: {is_read} }},"
        )
        .expect("write to a string");
    }
    code.push_str("];\n");
    code
}

/// An implementation of `Call` for each method with an HTTP rule, and of `Enumeration` for each enum.
fn calls(pool: &DescriptorPool) -> String {
    let mut code = String::new();
    let ours = |name: &str| name.starts_with("gpuaas.");
    let methods: Vec<MethodDescriptor> = pool
        .services()
        .flat_map(|service| service.methods().collect::<Vec<_>>())
        .filter(|method| http_rule(method).is_some())
        .collect();
    let mut requests = BTreeSet::new();
    let mut shared = BTreeSet::new();
    for method in &methods {
        let request = method.input().full_name().to_owned();
        if !ours(&request) || !requests.insert(request.clone()) {
            shared.insert(request);
        }
    }
    for method in &methods {
        call(
            &mut code,
            method,
            shared.contains(method.input().full_name()),
        );
    }
    for names in pool.all_enums().filter(|names| ours(names.full_name())) {
        let path = rust_path(names.full_name(), names.parent_message().as_ref());
        writeln!(code, "enumeration!({path});").expect("write to a string");
    }
    code
}

/// A message that is the request of one method only is its call; else the method has a type that holds its request.
fn call(code: &mut String, method: &MethodDescriptor, is_shared: bool) {
    let (verb, path, body) = http_rule(method).expect("has a rule");
    let of = |message: MessageDescriptor| match message.full_name() {
        "google.protobuf.Empty" => "()".to_owned(),
        name => rust_path(name, message.parent_message().as_ref()),
    };
    let (request, response) = (of(method.input()), of(method.output()));
    let full = method.full_name();
    let caller = if is_shared {
        let service = method.parent_service();
        let name = format!(
            "{}{}",
            service.name().trim_end_matches("Service"),
            method.name()
        );
        writeln!(
            code,
            "/// A call of `{full}`, whose request other methods have, too.\n\
             #[derive(Clone, Debug, Default, PartialEq)]\npub struct {name}(pub {request});"
        )
        .expect("write to a string");
        name
    } else {
        request.clone()
    };
    let message = if is_shared { "&self.0" } else { "self" };
    let kind = match method.is_server_streaming() {
        true => "Streaming",
        false => "Unary",
    };
    writeln!(
        code,
        "impl Call for {caller} {{\n    type Request = {request};\n    type Response = {response};\n    \
         const METHOD: &'static str = {full:?};\n    const VERB: &'static str = {verb:?};\n    \
         const PATH: &'static str = {path:?};\n    const BODY: &'static str = {body:?};\n    \
         fn message(&self) -> &Self::Request {{ {message} }}\n}}\nimpl {kind} for {caller} {{}}"
    )
    .expect("write to a string");
}

/// Verb, path and body of the `google.api.http` option.
fn http_rule(method: &MethodDescriptor) -> Option<(String, String, String)> {
    let extension = method
        .parent_pool()
        .get_extension_by_name("google.api.http")?;
    let options = method.options();
    if !options.has_extension(&extension) {
        return None;
    }
    let rule = options.get_extension(&extension).as_message()?.clone();
    let text = |rule: &DynamicMessage, field: &str| {
        let value = rule.get_field_by_name(field)?;
        Some(value.as_str()?.to_owned())
    };
    let verb = ["get", "put", "post", "delete", "patch"]
        .into_iter()
        .find(|verb| rule.has_field_by_name(verb))?;
    Some((
        verb.to_ascii_uppercase(),
        text(&rule, verb)?,
        text(&rule, "body").unwrap_or_default(),
    ))
}

/// Where prost generates a type.
fn rust_path(full_name: &str, parent: Option<&MessageDescriptor>) -> String {
    assert!(
        parent.is_none(),
        "{full_name}: is nested, which the calls of the HTTP API are not made for"
    );
    format!("crate::{}", full_name.replace('.', "::"))
}
