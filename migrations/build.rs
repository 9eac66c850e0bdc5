//! Embeds every `<folder>/<version>_<description>.sql` of this crate into the program.
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

/// Folders of SQL; `common` is applied in every schema, the others carry the name of their schema.
const FOLDERS: [&str; 7] = [
    "common",
    "placement",
    "inventory",
    "images",
    "terminal",
    "billing",
    "edge",
];

fn main() {
    let root = env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let mut code = String::from("pub(crate) const EMBEDDED: &[(&str, &[Script])] = &[\n");
    // The crate's own folder is watched because a folder of SQL may appear later than the crate was built.
    println!("cargo:rerun-if-changed={root}");
    for folder in FOLDERS {
        writeln!(code, "    ({folder:?}, &[").expect("write to a string");
        for (version, (description, file)) in scripts(&Path::new(&root).join(folder)) {
            println!("cargo:rerun-if-changed={file}");
            writeln!(
                code,
                "        ({version}, {description:?}, include_str!({file:?})),"
            )
            .expect("write to a string");
        }
        code.push_str("    ]),\n");
    }
    code.push_str("];\n");
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets OUT_DIR")).join("embedded.rs");
    fs::write(out, code).expect("OUT_DIR is writable");
}

/// Scripts of a folder by version: description and absolute path.
fn scripts(folder: &Path) -> BTreeMap<i64, (String, String)> {
    let mut found = BTreeMap::new();
    let Ok(entries) = fs::read_dir(folder) else {
        return found;
    };
    for entry in entries {
        let path = entry.expect("folder is readable").path();
        if path.extension().is_none_or(|extension| extension != "sql") {
            continue;
        }
        let stem = path
            .file_stem()
            .expect("a file has a name")
            .to_string_lossy()
            .into_owned();
        let (version, description) = stem
            .split_once('_')
            .unwrap_or_else(|| panic!("{stem}: want <version>_<description>.sql"));
        let version: i64 = version
            .parse()
            .unwrap_or_else(|_| panic!("{stem}: the version is not a number"));
        let file = path.to_string_lossy().into_owned();
        let clash = found.insert(version, (description.replace('_', " "), file));
        assert!(
            clash.is_none(),
            "{stem}: version {version} exists twice in {}",
            folder.display()
        );
    }
    found
}
