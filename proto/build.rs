//! Compiles the contract: all `.proto` files below `gpuaas/`, and the descriptor set that reflection,
//! the gateway's transcoder and the OpenAPI generator read.
use std::path::{Path, PathBuf};

use prost::Message as _;
use protox::Compiler;

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
    std::fs::write(
        out.join("descriptors.bin"),
        compiler.encode_file_descriptor_set(),
    )
    .expect("write descriptors");

    let set =
        prost_types::FileDescriptorSet::decode(compiler.encode_file_descriptor_set().as_slice())
            .expect("own descriptor set decodes");
    tonic_prost_build::configure()
        // ordered maps make the encoding canonical, which request hashes rest on
        .btree_map(".")
        .include_file("all.rs")
        .compile_fds(set)
        .expect("generate code");
}
