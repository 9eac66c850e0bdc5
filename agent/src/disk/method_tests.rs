//! The decision by reports in the form of nvme-cli 2.8, of controllers as they are found in GPU nodes and in the lab.
use super::super::nvme::Namespace;
use super::*;

/// Data-centre disk: sanitizes both ways, formats one namespace by key.
const MICRON_7450: &str = r#"{"vid":4932,"sn":"234844A10331","mn":"Micron_7450_MTFDKCB7T6TFR","cmic":0,"oacs":94,
    "sanicap":3,"nn":128,"oncs":94,"fna":4,"vwc":6}"#;
/// Data-centre disk with two ports: its sanitize by key alone, its format reaches all namespaces.
const SAMSUNG_PM9A3: &str = r#"{"vid":5197,"sn":"S64GNE0T601234","mn":"SAMSUNG MZQL23T8HCLS-00A07","cmic":3,"oacs":95,
    "sanicap":3758096385,"nn":32,"oncs":95,"fna":5,"vwc":6}"#;
/// Sanitizes blocks, not by key; formats and erases all namespaces.
const KIOXIA_CM6: &str = r#"{"vid":7695,"sn":"Z1A0A00ATFH8","mn":"KIOXIA KCM61VUL3T20","cmic":0,"oacs":94,"sanicap":2,
    "nn":64,"oncs":95,"fna":3,"vwc":0}"#;
/// Of before NVMe 1.3, one namespace alone.
const INTEL_P3600: &str = r#"{"vid":32902,"sn":"CVMD4215002W1P6DGN","mn":"INTEL SSDPE2ME016T4","cmic":0,"oacs":6,"nn":1,
    "oncs":6,"fna":7,"vwc":0}"#;
/// The emulated one: formats, no sanitize.
const QEMU: &str = r#"{"vid":6966,"sn":"FEAS0001","mn":"QEMU NVMe Ctrl","cmic":2,"oacs":42,"sanicap":0,"nn":256,
    "oncs":349,"fna":0,"vwc":7}"#;
/// Has no format at all, as controllers of clouds.
const AMAZON_EBS: &str = r#"{"vid":7439,"sn":"vol0123456789abcdef0","mn":"Amazon Elastic Block Store","cmic":0,"oacs":0,
    "sanicap":0,"nn":1,"oncs":0,"fna":0,"vwc":1}"#;

fn nvme(id_ctrl: &str, namespaces: Option<&[u32]>) -> WipeFacts {
    WipeFacts {
        nvme: Ok(NvmeFacts {
            controller: serde_json::from_str(id_ctrl).unwrap(),
            namespace: 1,
            namespaces: namespaces.map(<[u32]>::to_vec),
        }),
        discards_to_zero: true,
        discards_all: false,
        writes_zeroes: true,
        has_site_command: false,
    }
}

fn name(policy: WipePolicy, facts: &WipeFacts) -> Result<&'static str, String> {
    let method = choose(policy, facts).map_err(|error| error.to_string())?;
    Ok(method.name())
}

/// What an operator may choose, by what the first wipe would do.
#[test]
fn d_75_the_policies_of_a_disk_are_those_that_its_wipe_can_meet() {
    let names = |nvme: &Result<NvmeFacts, String>, has_site_command| {
        let all = possible(nvme, has_site_command).into_iter();
        all.map(WipePolicy::as_str).collect::<Vec<_>>()
    };
    let of = |fna: u32, oacs: u32, namespaces: Option<Vec<u32>>| {
        Ok(NvmeFacts {
            controller: Controller {
                oacs,
                fna,
                nn: 128,
                sanicap: 0,
            },
            namespace: 1,
            namespaces,
        })
    };
    let formats = of(4, 94, None);
    assert_eq!(names(&formats, false), ["blkdiscard", "nvme_format"]);
    assert_eq!(
        names(&formats, true),
        ["blkdiscard", "nvme_format", "site_erase"]
    );
    for cannot in [
        of(4, 0, Some(vec![1])),
        // it would erase the disks of other slots
        of(1, 94, Some(vec![1, 2])),
        Err("it is no NVMe namespace".to_owned()),
    ] {
        assert_eq!(names(&cannot, false), ["blkdiscard"], "{cannot:?}");
    }
    assert_eq!(
        names(&of(1, 94, Some(vec![1])), false),
        ["blkdiscard", "nvme_format"]
    );
}

#[test]
fn d_75_the_strongest_method_that_reaches_no_other_namespace_is_taken() {
    let (own, two) = (Some(&[1][..]), Some(&[1, 2][..]));
    let refused = Err("format");
    for (id_ctrl, namespaces, by_discard, by_format) in [
        (
            MICRON_7450,
            own,
            "sanitize_crypto_erase",
            Ok("sanitize_crypto_erase"),
        ),
        // the neighbour's namespace is out of a format's reach, not of a sanitize's
        (
            MICRON_7450,
            two,
            "format_crypto_erase",
            Ok("format_crypto_erase"),
        ),
        // who cannot list its namespaces may have others
        (
            MICRON_7450,
            None,
            "format_crypto_erase",
            Ok("format_crypto_erase"),
        ),
        (
            SAMSUNG_PM9A3,
            own,
            "sanitize_crypto_erase",
            Ok("sanitize_crypto_erase"),
        ),
        (SAMSUNG_PM9A3, two, "write_zeroes", refused),
        (
            KIOXIA_CM6,
            own,
            "sanitize_block_erase",
            Ok("sanitize_block_erase"),
        ),
        (KIOXIA_CM6, two, "write_zeroes", refused),
        (
            INTEL_P3600,
            None,
            "format_crypto_erase",
            Ok("format_crypto_erase"),
        ),
        (
            QEMU,
            own,
            "format_user_data_erase",
            Ok("format_user_data_erase"),
        ),
        (
            QEMU,
            two,
            "format_user_data_erase",
            Ok("format_user_data_erase"),
        ),
        (AMAZON_EBS, own, "write_zeroes", refused),
    ] {
        let facts = nvme(id_ctrl, namespaces);
        assert_eq!(
            name(WipePolicy::Blkdiscard, &facts),
            Ok(by_discard),
            "{id_ctrl} {namespaces:?}"
        );
        let formatted = name(WipePolicy::NvmeFormat, &facts);
        match by_format {
            Ok(expected) => assert_eq!(formatted, Ok(expected), "{id_ctrl} {namespaces:?}"),
            Err(_) => assert!(
                formatted.is_err_and(|why| why.contains("cannot be met")),
                "{id_ctrl} {namespaces:?}"
            ),
        }
    }
}

#[test]
fn d_75_a_policy_that_cannot_be_met_is_refused_with_the_reason() {
    let loop_device = WipeFacts {
        nvme: Err("it is no NVMe namespace".into()),
        discards_all: true,
        ..nvme(QEMU, None)
    };
    assert_eq!(
        name(WipePolicy::Blkdiscard, &loop_device),
        Ok("blkdiscard"),
        "a lab disk is wiped as ever"
    );
    let refused = name(WipePolicy::NvmeFormat, &loop_device).unwrap_err();
    assert!(refused.contains("no NVMe namespace"), "{refused}");
    let refused = name(WipePolicy::SiteErase, &loop_device).unwrap_err();
    assert!(refused.contains("agent.wipe.site_command"), "{refused}");
    let with_command = WipeFacts {
        has_site_command: true,
        ..loop_device
    };
    assert_eq!(name(WipePolicy::SiteErase, &with_command), Ok("site_erase"));
    // a command of the site is run where it is the policy, and nowhere else
    assert_eq!(
        name(WipePolicy::Blkdiscard, &with_command),
        Ok("blkdiscard")
    );
}

#[test]
fn d_75_blocks_are_discarded_only_where_they_read_as_zero_afterwards() {
    for (discards_to_zero, writes_zeroes, expected, zero) in [
        // a discard is a hint to a controller: without an erase it is asked for zeroes
        (true, true, "write_zeroes", Zero::Discard),
        (true, false, "blkdiscard", Zero::Discard),
        (false, true, "write_zeroes", Zero::WriteZeroes),
        (false, false, "overwrite", Zero::Overwrite),
    ] {
        let facts = WipeFacts {
            discards_to_zero,
            writes_zeroes,
            ..nvme(AMAZON_EBS, None)
        };
        assert_eq!(name(WipePolicy::Blkdiscard, &facts), Ok(expected));
        // also after an erase, which says nothing of what is read
        let facts = WipeFacts {
            nvme: nvme(MICRON_7450, Some(&[1])).nvme,
            ..facts
        };
        let method = choose(WipePolicy::NvmeFormat, &facts).unwrap();
        assert_eq!(method.zero, zero);
        // as good as if there had been no erase to choose
        assert_eq!(without_erase(&facts).name(), expected);
    }
    for (dlfeat, expected) in [(0, false), (1, true), (9, true), (2, false), (10, false)] {
        assert_eq!(
            Namespace {
                dlfeat,
                ..Namespace::default()
            }
            .deallocates_to_zero(),
            expected
        );
    }
    let missing: Namespace = serde_json::from_str(r#"{"nsze":1875385008,"flbas":0}"#).unwrap();
    assert!(!missing.deallocates_to_zero());
}
