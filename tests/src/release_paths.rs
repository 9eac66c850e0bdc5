//! The ways from a change to a running system are on the page of the development guide, with what takes them.
use std::path::Path;

#[test]
fn k_12_every_release_path_has_what_takes_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = std::fs::read_to_string(root.join("docs/development.md")).expect("a page");
    let (_, section) = page.split_once("\n## Release paths\n").expect("a section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| "));
    let rows: Vec<Vec<&str>> = rows
        .skip(1)
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let paths: Vec<&str> = rows.iter().map(|row| row[0]).collect();
    assert_eq!(paths, ["development", "one component", "everything"]);
    for row in rows {
        let does = row[1];
        assert!(does.contains("`make ") || does.contains("]("), "{row:?}");
        let broken = gpuaas_docs::claims::broken(&root, "page", does).expect("checks");
        assert_eq!(broken, [""; 0], "{row:?}");
    }
}
