//! Which domains use a disk.
use super::*;
use crate::vm::PowerState;

fn domain(sources: &[&Path], untraced: &[&str]) -> Domain {
    Domain {
        name: "d".into(),
        state: PowerState::ShutOff,
        disk_sources: sources
            .iter()
            .map(|path| path.display().to_string())
            .collect(),
        untraced_sources: untraced.iter().map(|&text| text.to_owned()).collect(),
    }
}

fn uses(domain: Domain, alias: &Path) -> Vec<String> {
    let found = used_by(&[domain], &[alias.to_owned()]).unwrap();
    found.into_iter().map(|one| one.state).collect()
}

#[test]
fn d_34_a_domain_uses_a_disk_under_any_of_its_names() {
    let dir = tempfile::tempdir().unwrap();
    let (file, link) = (dir.path().join("disk"), dir.path().join("link"));
    std::fs::write(&file, "x").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let other = dir.path().join("other");
    assert_eq!(uses(domain(&[&file], &[]), &file), ["shut off"]);
    assert_eq!(uses(domain(&[&link], &[]), &file), ["shut off"]);
    assert!(uses(domain(&[&other], &[]), &file).is_empty());
    assert_eq!(
        uses(domain(&[&other], &[]), &other),
        ["shut off"],
        "by name alone"
    );
}

#[test]
fn d_34_a_domain_uses_the_disk_of_a_controller_that_is_given_to_it() {
    let description = "<domain><hostdev mode='subsystem' type='pci'><source>
        <address domain='0x0000' bus='0xaf' slot='0x00' function='0x0'/></source></hostdev></domain>";
    let given = crate::vm::disk_sources::sources(description).unwrap().paths;
    let given: Vec<&Path> = given.iter().map(Path::new).collect();
    let controller = |address: &str| PathBuf::from(pci_device(&address.parse().unwrap()));
    let (own, other) = (controller("0000:af:00.0"), controller("0000:b0:00.0"));
    assert_eq!(uses(domain(&given, &[]), &own), ["shut off"]);
    assert!(uses(domain(&given, &[]), &other).is_empty());
}

#[test]
fn p9_a_domain_with_a_disk_that_cannot_be_traced_may_use_any() {
    let untraced = domain(&[], &["volume lv1 of pool vg"]);
    let found = uses(untraced, Path::new("/dev/nvme1n1"));
    assert_eq!(found, ["shut off, with volume lv1 of pool vg"]);
}

#[test]
fn p9_a_source_that_cannot_be_looked_at_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let (file, ring) = (dir.path().join("disk"), dir.path().join("ring"));
    std::fs::write(&file, "x").unwrap();
    std::os::unix::fs::symlink(&ring, &ring).unwrap();
    assert!(used_by(&[domain(&[&ring], &[])], &[file]).is_err());
}
