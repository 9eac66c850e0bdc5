//! What the domain description says, and that libvirt takes it.
use super::*;
use crate::settings::{BridgeKind, Hypervisor, NvmeAttachment};
use crate::vm::locality::{Cell, Function};

fn profile() -> HostProfile {
    HostProfile {
        name: "lab".into(),
        lab: true,
        mode: None,
        hypervisor: Hypervisor::Qemu,
        cpu_model: "qemu64".into(),
        machine: "q35".into(),
        seed_bus: "scsi".into(),
        memory_locking: false,
        hugepages: false,
        nvme: NvmeAttachment::default(),
        firmware_code: "/usr/share/OVMF/OVMF_CODE_4M.fd".into(),
        firmware_vars_template: "/usr/share/OVMF/OVMF_VARS_4M.fd".into(),
        emulator: "/usr/bin/qemu-system-x86_64".into(),
    }
}

fn spec() -> DomainSpec {
    DomainSpec {
        name: "gpuaas-slice-0192f0c1aaaa7bbb8ccc0123456789ab"
            .parse()
            .unwrap(),
        uuid: Uuid::from_u128(7),
        vcpus: 2,
        memory_mib: 512,
        hugepages: false,
        disks: vec!["/dev/loop0".into(), "/dev/loop1".into()],
        rescue: None,
        seed: Some("/state/seeds/a<b>&'c.iso".into()),
        mac: "52:54:00:10:00:10".parse().unwrap(),
        port: "gs0123456789ab".into(),
        bandwidth: None,
        locality: Locality::default(),
        boots_from: None,
        serial_log: "/state/serial/vm.log".into(),
    }
}

/// Nova's `rescue`: the rescue image is the first disk, which boots, and the VM's own follow as they are.
#[test]
fn d_47_a_rescue_boots_from_its_own_file_and_has_the_vms_disks_behind_it() {
    let rescued = DomainSpec {
        rescue: Some("/state/rescue/vm/disk.raw".into()),
        ..spec()
    };
    let xml = domain_xml(&rescued, &profile(), &Network::default()).unwrap();
    let at = |text: &str| xml.find(text).unwrap_or_else(|| panic!("{text} in {xml}"));
    let order = [
        at(r#"<source file="/state/rescue/vm/disk.raw"/>"#),
        at(r#"<target dev="vda" bus="virtio"/>"#),
        at(r#"<source dev="/dev/loop0"/>"#),
        at(r#"<target dev="vdb" bus="virtio"/>"#),
        at(r#"<source dev="/dev/loop1"/>"#),
        at(r#"<target dev="vdc" bus="virtio"/>"#),
    ];
    assert!(order.is_sorted(), "{xml}");
    assert_eq!(xml.matches("<target dev=\"vd").count(), 3);
    let own = domain_xml(&spec(), &profile(), &Network::default()).unwrap();
    assert!(!own.contains("/state/rescue"), "{own}");
}

/// L-14 and CON-24; the interface is a tap of the bridge and no function of a card (J-23).
/// D-51, D-52, D-55: hugepages only where they were asked for.
#[test]
fn inc_21_inc_23_d_49_d_50_d_61_no_tpm_no_secure_boot_no_graphics() {
    let xml = domain_xml(&spec(), &profile(), &Network::default()).unwrap();
    for absent in [
        "<tpm",
        "<graphics",
        "<video",
        "vnc",
        "hugepages",
        "hostdev",
        "locked",
        "cputune",
    ] {
        assert!(!xml.contains(absent), "{absent} in {xml}");
    }
    assert!(xml.contains(r#"<loader readonly="yes" secure="no" type="pflash">/usr/share/OVMF/OVMF_CODE_4M.fd</loader>"#));
    assert!(xml.contains(r#"<nvram template="/usr/share/OVMF/OVMF_VARS_4M.fd"/>"#));
    assert!(xml.contains(r#"<source dev="/dev/loop1"/>"#) && xml.contains(r#"dev="vdb""#));
    // A-68, J-09: the port on the switch is the slot's, whichever VM has it
    let id = spec().mac.ovs_interface_id();
    let port = format!(r#"<parameters interfaceid="{id}"/>"#);
    assert!(
        xml.contains(r#"<virtualport type="openvswitch">"#) && xml.contains(&port),
        "{xml}"
    );
    assert!(xml.contains("a&lt;b&gt;&amp;"), "paths are escaped");
    assert!(
        !xml.contains("csum"),
        "a switch in the kernel fills in checksums"
    );
}

#[test]
fn a_switch_in_user_space_gets_whole_checksums_from_its_guests() {
    let network = Network {
        datapath: "netdev".into(),
        ..Network::default()
    };
    let xml = domain_xml(&spec(), &profile(), &network).unwrap();
    assert!(xml.contains(r#"<host csum="off"/>"#), "{xml}");
}

/// Two GPUs with their functions, one on each socket of a host.
fn gpu_slice() -> (DomainSpec, HostProfile) {
    let cell = |host_node: u32, cpus: &str, distances| Cell {
        host_node,
        cpus: cpus.into(),
        vcpus: 4,
        memory_mib: 2048,
        distances,
    };
    let function = |address: &str, cell| Function {
        address: address.parse().unwrap(),
        cell: Some(cell),
    };
    let mut spec = spec();
    spec.vcpus = 8;
    spec.memory_mib = 4096;
    spec.hugepages = true;
    spec.locality = Locality {
        cells: vec![
            cell(0, "0-31,64-95", vec![10, 21]),
            cell(1, "32-63", vec![21, 10]),
        ],
        functions: vec![
            function("0000:1b:00.0", 0),
            function("0000:1c:00.1", 0),
            function("0000:9b:00.0", 1),
            function("0000:9c:00.1", 1),
        ],
        window_bytes: 1 << 40,
    };
    let mut profile = profile();
    profile.hypervisor = Hypervisor::Kvm;
    profile.cpu_model = "host-passthrough".into();
    profile.memory_locking = true;
    (spec, profile)
}

/// So many GPUs of an eight-GPU host with their functions and disks; the first four are on the first socket.
fn large(gpus: usize) -> (DomainSpec, HostProfile) {
    const GPUS: [&str; 8] = ["1b", "43", "52", "61", "9d", "c3", "d1", "df"];
    const CARDS: [&str; 8] = ["1a", "3c", "4d", "5e", "9c", "bf", "cc", "da"];
    let (mut spec, profile) = gpu_slice();
    let sockets = gpus.div_ceil(4);
    spec.vcpus = u32::try_from(gpus * 20).unwrap();
    spec.memory_mib = u32::try_from(gpus * 192 * 1024).unwrap();
    spec.disks = (0..gpus)
        .map(|disk| format!("/dev/nvme{disk}n1").into())
        .collect();
    spec.locality.window_bytes = 4 << 40;
    spec.locality.cells.truncate(sockets);
    for cell in &mut spec.locality.cells {
        cell.vcpus = spec.vcpus / u32::try_from(sockets).unwrap();
        cell.memory_mib = spec.memory_mib / u32::try_from(sockets).unwrap();
        cell.distances.truncate(sockets);
    }
    let places = GPUS.iter().zip(CARDS).take(gpus).enumerate();
    let functions = places.flat_map(|(slot, (gpu, card))| {
        [format!("0000:{gpu}:00.0"), format!("0000:{card}:00.1")].map(|address| Function {
            address: address.parse().unwrap(),
            cell: Some(slot / 4),
        })
    });
    spec.locality.functions = functions.collect();
    (spec, profile)
}

/// Functions of the fabric are passed through beside the interface (J-10); a slice has whole GPUs (L-04).
/// D-53
#[test]
fn d_47_a_gpu_slice_gets_whole_functions_hugepages_and_memory_of_their_nodes() {
    let (spec, profile) = gpu_slice();
    let xml = domain_xml(&spec, &profile, &Network::default()).unwrap();
    for present in [
        r#"<domain type="kvm">"#,
        r#"<cpu mode="host-passthrough" check="none">"#,
        r#"<hostdev mode="subsystem" type="pci" managed="yes">"#,
        r#"<address domain="0x0000" bus="0x1b" slot="0x00" function="0x0"/>"#,
        "<hugepages/>",
        r#"<memory mode="strict" nodeset="0,1"/>"#,
        r#"<memnode cellid="1" mode="strict" nodeset="1"/>"#,
        r#"<vcpupin vcpu="4" cpuset="32-63"/>"#,
        r#"<emulatorpin cpuset="0-31,64-95,32-63"/>"#,
        r#"<topology sockets="2" dies="1" cores="4" threads="1"/>"#,
        r#"<cell id="1" cpus="4-7" memory="2048" unit="MiB">"#,
        r#"<pcihole64 unit="KiB">1073741824</pcihole64>"#,
    ] {
        assert!(xml.contains(present), "{present} in {xml}");
    }
}

#[test]
fn d_47_each_function_has_a_port_of_its_own_on_the_bus_of_its_socket() {
    let (spec, profile) = gpu_slice();
    let xml = domain_xml(&spec, &profile, &Network::default()).unwrap();
    let document = xml.split("<controller").collect::<Vec<_>>();
    let of = |model: &str| document.iter().filter(|part| part.contains(model)).count();
    assert_eq!((of("pcie-expander-bus"), of("pcie-root-port")), (2, 4));
    for (cell, bus) in [("<node>0</node>", "85"), ("<node>1</node>", "170")] {
        let expander = document.iter().find(|part| part.contains(cell)).unwrap();
        assert!(
            expander.contains(&format!(r#"busNr="{bus}""#)),
            "{expander}"
        );
    }
    for (port, bus, slot) in [(3, 1, 0), (4, 1, 1), (5, 2, 0), (6, 2, 1)] {
        let index = format!(r#"index="{port}""#);
        let port = document.iter().find(|part| part.contains(&index)).unwrap();
        let address = format!(r#"bus="0x{bus:02x}" slot="0x{slot:02x}""#);
        assert!(
            port.contains("pcie-root-port") && port.contains(&address),
            "{port}"
        );
    }
    // one socket: ports of the root are enough, and libvirt finds their places
    let (mut spec, profile) = gpu_slice();
    spec.locality.cells.truncate(1);
    for function in &mut spec.locality.functions {
        function.cell = Some(0);
    }
    let xml = domain_xml(&spec, &profile, &Network::default()).unwrap();
    assert!(!xml.contains("pcie-expander-bus"), "{xml}");
    assert_eq!(xml.matches("pcie-root-port").count(), 4);
}

#[test]
fn d_60_j_22_a_vnic_has_its_limit_and_its_burst_in_both_directions() {
    let of = |bandwidth| {
        let spec = DomainSpec {
            bandwidth,
            ..spec()
        };
        domain_xml(&spec, &profile(), &Network::default()).unwrap()
    };
    let limit = |burst_kb| Bandwidth {
        mbits: 10_000,
        burst_kb,
    };
    let xml = of(Some(limit(None)));
    let limits = xml.matches(r#"average="1250000""#).count();
    assert_eq!(limits, 2, "{xml}");
    assert!(
        xml.contains(r#"<inbound average="1250000" peak="1250000"/>"#),
        "{xml}"
    );
    let xml = of(Some(limit(Some(64))));
    for line in [
        r#"<inbound average="1250000" peak="1250000" burst="64"/>"#,
        r#"<outbound average="1250000" burst="64"/>"#,
    ] {
        assert!(xml.contains(line), "{xml}");
    }
    assert!(!of(None).contains("bandwidth"));
}

/// Two slots with their NVMe controllers in place of virtio disks.
fn with_controllers() -> (DomainSpec, HostProfile) {
    let (mut spec, mut profile) = gpu_slice();
    spec.disks = Vec::new();
    spec.boots_from = Some("0000:1d:00.0".parse().unwrap());
    for (place, address, cell) in [(2, "0000:1d:00.0", 0), (5, "0000:9d:00.0", 1)] {
        let function = Function {
            address: address.parse().unwrap(),
            cell: Some(cell),
        };
        spec.locality.functions.insert(place, function);
    }
    profile.nvme = NvmeAttachment::Passthrough;
    (spec, profile)
}

/// The first slot's disk boots, by an order of its own: libvirt takes it only where the machine has none.
#[test]
fn d_47_disks_are_passed_through_by_their_controllers_where_the_profile_says_so() {
    let (spec, profile) = with_controllers();
    let xml = domain_xml(&spec, &profile, &Network::default()).unwrap();
    assert!(!xml.contains(r#"device="disk""#), "{xml}");
    assert!(!xml.contains(r#"<boot dev="hd"/>"#), "{xml}");
    assert_eq!(xml.matches("<hostdev").count(), 6);
    assert_eq!(xml.matches("pcie-root-port").count(), 6);
    let boots = xml
        .split("<hostdev")
        .find(|one| one.contains("<boot order=\"1\"/>"));
    let source = r#"bus="0x1d" slot="0x00" function="0x0"/>"#;
    assert!(boots.is_some_and(|one| one.contains(source)), "{xml}");
    assert_eq!(xml.matches("<boot ").count(), 1);
    // a rescue boots from its own file, and has the controllers beside it
    let rescued = DomainSpec {
        rescue: Some("/state/rescue/vm/disk.raw".into()),
        boots_from: None,
        ..spec
    };
    let xml = domain_xml(&rescued, &profile, &Network::default()).unwrap();
    assert!(
        xml.contains(r#"<boot dev="hd"/>"#) && !xml.contains("<boot order"),
        "{xml}"
    );
    assert_eq!(xml.matches(r#"device="disk""#).count(), 1);
    assert_eq!(xml.matches("<hostdev").count(), 6);
}

/// Every kind of description that there is: each has a file in `golden`, the list of devices, and libvirt's schema to keep.
fn kinds() -> Vec<(&'static str, DomainSpec, HostProfile, Network)> {
    let linux = Network {
        bridge_kind: BridgeKind::Linux,
        ..Network::default()
    };
    let in_user_space = Network {
        datapath: "netdev".into(),
        ..Network::default()
    };
    let switch = Network::default;
    let (slice, kvm) = gpu_slice();
    let without_hugepages = DomainSpec {
        hugepages: false,
        ..slice.clone()
    };
    let limited = DomainSpec {
        bandwidth: Some(Bandwidth {
            mbits: 1000,
            burst_kb: Some(1250),
        }),
        ..slice.clone()
    };
    let (mut one_socket, _) = gpu_slice();
    one_socket.vcpus = 4;
    one_socket.memory_mib = 2048;
    one_socket.disks.truncate(1);
    one_socket.locality.cells.truncate(1);
    one_socket.locality.cells[0].distances.truncate(1);
    one_socket.locality.functions.truncate(2);
    let restarted = DomainSpec {
        seed: None,
        ..slice.clone()
    };
    let rescued = DomainSpec {
        rescue: Some("/state/rescue/vm/disk.raw".into()),
        ..slice.clone()
    };
    let (four_gpus, _) = large(4);
    let (eight_gpus, _) = large(8);
    let (controllers, passing) = with_controllers();
    let rescued_beside = DomainSpec {
        rescue: Some("/state/rescue/vm/disk.raw".into()),
        boots_from: None,
        ..controllers.clone()
    };
    vec![
        ("lab", spec(), profile(), switch()),
        ("lab-in-user-space", spec(), profile(), in_user_space),
        ("slice", slice.clone(), kvm.clone(), switch()),
        ("slice-on-a-linux-bridge", limited, kvm.clone(), linux),
        ("slice-emulated", slice, profile(), switch()),
        ("slice-one-socket", one_socket, kvm.clone(), switch()),
        ("slice-four-gpus", four_gpus, kvm.clone(), switch()),
        ("slice-eight-gpus", eight_gpus, kvm.clone(), switch()),
        (
            "slice-without-hugepages",
            without_hugepages,
            kvm.clone(),
            switch(),
        ),
        ("slice-restarted", restarted, kvm.clone(), switch()),
        ("slice-rescued", rescued, kvm, switch()),
        (
            "slice-nvme-passthrough",
            controllers,
            passing.clone(),
            switch(),
        ),
        (
            "slice-nvme-passthrough-rescued",
            rescued_beside,
            passing,
            switch(),
        ),
    ]
}

/// Set to write the files in place of comparing them.
const WRITE: &str = "GPUAAS_WRITE_GOLDEN";

/// A change of any description is a change of a file that a reviewer reads.
#[test]
fn d_47_d_61_every_kind_of_description_is_as_its_golden_file_has_it() {
    let folder = std::path::Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/src/vm/domain_xml/golden"
    ));
    let mut names = Vec::new();
    for (name, spec, profile, network) in kinds() {
        let xml = domain_xml(&spec, &profile, &network).unwrap() + "\n";
        let file = folder.join(format!("{name}.xml"));
        names.push(format!("{name}.xml"));
        if std::env::var_os(WRITE).is_some() {
            std::fs::create_dir_all(folder).unwrap();
            std::fs::write(&file, &xml).unwrap();
        }
        let golden = std::fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(xml, golden, "{name} is stale: run this test with {WRITE}=1");
    }
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    names.sort();
    assert_eq!(files, names, "no file is left of a kind that is gone");
}

#[test]
fn d_61_a_vm_has_the_devices_that_are_listed_and_no_other() {
    for (name, spec, profile, network) in kinds() {
        let xml = domain_xml(&spec, &profile, &network).unwrap();
        let unlisted = allowed::unlisted_in_description(&xml);
        assert_eq!(unlisted, Ok(Vec::new()), "{name}");
        assert!(xml.contains(r#"<memballoon model="none"/>"#));
        assert!(xml.contains(r#"<controller type="usb" model="none"/>"#));
    }
}

/// libvirt's own schema, by its own program.
/// D-48
// partly D-48: `virt-install` is not run; the domain is defined through libvirt's API with the same meaning
#[test]
fn d_47_every_description_is_valid_by_libvirts_schema() {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    for (name, spec, profile, network) in kinds() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let xml = domain_xml(&spec, &profile, &network).unwrap();
        file.write_all(xml.as_bytes()).unwrap();
        let valid = Command::new("virt-xml-validate")
            .arg(file.path())
            .arg("domain")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&valid.stderr);
        assert!(valid.status.success(), "{name}: {said}{xml}");
    }
}

#[test]
fn p11_the_seed_is_there_for_the_first_boot_alone_and_the_instance_always() {
    let mut spec = spec();
    let first = domain_xml(&spec, &profile(), &Network::default()).unwrap();
    spec.seed = None;
    let later = domain_xml(&spec, &profile(), &Network::default()).unwrap();
    assert!(first.contains("/state/seeds/") && !later.contains("/state/seeds/"));
    assert!(
        later.contains(r#"device="cdrom""#),
        "the drive stays: {later}"
    );
    for xml in [first, later] {
        assert!(xml.contains(r#"<smbios mode="sysinfo"/>"#), "{xml}");
        let serial = "ds=nocloud;i=00000000-0000-0000-0000-000000000007</entry>";
        assert!(xml.contains(serial), "{xml}");
    }
}

#[test]
fn a_linux_bridge_has_no_virtual_port() {
    let network = Network {
        bridge_kind: BridgeKind::Linux,
        ..Network::default()
    };
    assert!(
        !domain_xml(&spec(), &profile(), &network)
            .unwrap()
            .contains("virtualport")
    );
}
