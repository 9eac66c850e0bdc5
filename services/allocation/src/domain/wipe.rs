//! Judging a host's wipe evidence. The host proves, the control plane checks again: a slot is allocated again only
//! when both agree (P2, C-10, C-11).

use gpuaas_proto::gpuaas::agent::v1::WipeEvidence;
use gpuaas_wipe_certificate::{Refusal, Statement, verify};
use jiff::Timestamp;

/// The control plane's record of a slot that should have been wiped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedWipe {
    pub node_id: String,
    /// Host instance that was told to wipe.
    pub instance_id: String,
    /// Under which the host was told to wipe.
    pub allocation_id: String,
    pub slot_id: String,
    /// Generation of the claim or repair.
    pub generation: u64,
    /// Wipe policy that was approved for the slot (D-75).
    pub policy: String,
    /// Stable identity of the disk.
    pub disk_identity: String,
    /// Approved size of the disk in bytes; 0 when approval did not know it.
    pub disk_bytes: u64,
}

/// How much of a disk must have been read back (C-11).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thoroughness {
    /// Disks up to this size must have been read back completely, in bytes.
    pub full_bytes: u64,
    /// At least this much of a larger disk, in bytes.
    pub sample_bytes: u64,
}

impl Thoroughness {
    fn wanted(self, disk_bytes: u64) -> u64 {
        if disk_bytes <= self.full_bytes {
            disk_bytes
        } else {
            self.sample_bytes.min(disk_bytes)
        }
    }
}

/// Finds the proof of one slot and judges it.
///
/// # Errors
/// Why it proves nothing, for operators.
pub fn judge<'a>(
    expected: &ExpectedWipe,
    thoroughness: Thoroughness,
    evidence: &'a [WipeEvidence],
) -> Result<&'a WipeEvidence, String> {
    let mut of_slot = evidence
        .iter()
        .filter(|proof| proof.slot_id == expected.slot_id);
    let Some(proof) = of_slot.next() else {
        return Err("the host gave no evidence for the slot".into());
    };
    if of_slot.next().is_some() {
        return Err("the host gave more than one evidence for the slot".into());
    }
    let generation = proof.token.as_ref().map(|token| token.slot_generation);
    if generation != Some(expected.generation) {
        return Err(format!(
            "evidence is of generation {generation:?}, not {}",
            expected.generation
        ));
    }
    if proof.policy != expected.policy {
        return Err(format!(
            "wiped by the policy {:?}, that of the slot is {:?}",
            proof.policy, expected.policy
        ));
    }
    if proof.disk_identity != expected.disk_identity {
        return Err("evidence is of another disk".into());
    }
    if proof.disk_bytes == 0
        || (expected.disk_bytes != 0 && proof.disk_bytes != expected.disk_bytes)
    {
        return Err(format!(
            "disk has {} bytes, approved were {}",
            proof.disk_bytes, expected.disk_bytes
        ));
    }
    let wanted = thoroughness.wanted(proof.disk_bytes);
    if proof.verified_bytes < wanted || proof.verified_bytes > proof.disk_bytes {
        return Err(format!(
            "{} of {} bytes were read back as zero, wanted {wanted}",
            proof.verified_bytes, proof.disk_bytes
        ));
    }
    if !proof.no_signatures {
        return Err("a signature or a partition table is left on the disk".into());
    }
    if !meets(&proof.erase_method, &expected.policy) {
        return Err(format!(
            "wiped by {:?}, which is less than the policy {:?}",
            proof.erase_method, expected.policy
        ));
    }
    Ok(proof)
}

/// Whether a method is at least what the policy names. An agent of before it told of methods did what the policy names.
fn meets(method: &str, policy: &str) -> bool {
    match method {
        "" => true,
        "sanitize_crypto_erase"
        | "sanitize_block_erase"
        | "format_crypto_erase"
        | "format_user_data_erase" => matches!(policy, "blkdiscard" | "nvme_format"),
        "blkdiscard" | "write_zeroes" | "overwrite" => policy == "blkdiscard",
        "site_erase" => policy == "site_erase",
        _ => false,
    }
}

/// What a host signed of a wipe whose proof is judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Certificate {
    /// Nothing: it has no key, or is of before there were certificates.
    None,
    /// Says the same as the proof, for whoever sees it alone.
    Verified,
    /// The host's clock stood outside the time of its certificate, so it is worth nothing to others. The proof, which came
    /// on the host's own connection, is as good as one without a certificate: a clock says nothing about a disk.
    OfWrongClock(String),
}

/// Verifies what the host signed of a wipe whose proof is judged.
///
/// # Errors
/// Why the certificate is not one of this wipe, for operators.
pub fn check_certificate(
    expected: &ExpectedWipe,
    proof: &WipeEvidence,
    host_authority: &str,
) -> Result<Certificate, String> {
    if proof.certificate.is_empty() {
        return Ok(Certificate::None);
    }
    match verify(&proof.certificate, host_authority) {
        Ok(said) => {
            same_wipe(expected, proof, &said)?;
            Ok(Certificate::Verified)
        }
        Err(skewed @ Refusal::ExpiredAtSigning(_)) => {
            Ok(Certificate::OfWrongClock(skewed.to_string()))
        }
        Err(refusal) => Err(format!("the host's wipe certificate: {refusal}")),
    }
}

/// Whether a statement is of the wipe that a proof is of: the same subject, and the same times.
fn same_wipe(
    expected: &ExpectedWipe,
    proof: &WipeEvidence,
    said: &Statement,
) -> Result<(), String> {
    for (member, said, known) in [
        ("node", &said.node_id, &expected.node_id),
        ("host instance", &said.instance_id, &expected.instance_id),
        ("allocation", &said.allocation_id, &expected.allocation_id),
        ("slot", &said.slot_id, &expected.slot_id),
        ("disk", &said.device.identity, &expected.disk_identity),
        ("policy", &said.policy, &expected.policy),
        ("method", &said.method, &proof.erase_method),
    ] {
        if said != known {
            return Err(of_another(member));
        }
    }
    let numbers = [
        ("generation", said.generation, expected.generation),
        ("disk size", said.device.bytes, proof.disk_bytes),
        (
            "verification",
            said.verification.verified_bytes,
            proof.verified_bytes,
        ),
    ];
    if let Some((member, ..)) = numbers.iter().find(|(_, said, known)| said != known) {
        return Err(of_another(member));
    }
    // a clock that was set back during the wipe puts an end before its beginning; the certificate says the later of both
    let wiped = time(proof.wipe_time.as_ref()).max(Some(said.start_time));
    let verified = time(proof.verify_time.as_ref()).max(Some(said.end_time));
    for (member, said, known) in [
        ("time of the wipe", said.end_time, wiped),
        (
            "time of the verification",
            said.verification.end_time,
            verified,
        ),
    ] {
        if Some(said) != known {
            return Err(of_another(member));
        }
    }
    Ok(())
}

fn of_another(member: &str) -> String {
    format!("the host's wipe certificate is of another {member}")
}

/// A time of the wire; none where there is none, or no possible one.
fn time(given: Option<&prost_types::Timestamp>) -> Option<Timestamp> {
    given.and_then(|time| Timestamp::new(time.seconds, time.nanos).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuaas_proto::gpuaas::agent::v1::FencingToken;
    use gpuaas_wipe_certificate::{Device, Verification};

    const ALL: Thoroughness = Thoroughness {
        full_bytes: 1 << 30,
        sample_bytes: 0,
    };

    #[test]
    fn a_large_disk_is_proven_by_samples_of_a_least_size() {
        let limits = Thoroughness {
            full_bytes: 512,
            sample_bytes: 256,
        };
        let read = |verified_bytes| {
            let proof = WipeEvidence {
                verified_bytes,
                ..proof()
            };
            judge(&expected(), limits, &[proof]).is_ok()
        };
        assert!(read(1024) && read(256));
        assert!(!read(255) && !read(0) && !read(1025));
    }

    fn expected() -> ExpectedWipe {
        ExpectedWipe {
            node_id: "n".into(),
            instance_id: "i".into(),
            allocation_id: "a".into(),
            slot_id: "s".into(),
            generation: 3,
            policy: "blkdiscard".into(),
            disk_identity: "lab-disk:1".into(),
            disk_bytes: 1024,
        }
    }

    fn proof() -> WipeEvidence {
        WipeEvidence {
            slot_id: "s".into(),
            token: Some(FencingToken {
                cell_epoch: 1,
                slot_generation: 3,
                workflow_epoch: 9,
            }),
            policy: "blkdiscard".into(),
            disk_identity: "lab-disk:1".into(),
            disk_bytes: 1024,
            verified_bytes: 1024,
            no_signatures: true,
            ..WipeEvidence::default()
        }
    }

    #[test]
    fn d_75_a_wipe_by_less_than_the_policy_proves_nothing() {
        for (policy, good, bad) in [
            (
                "blkdiscard",
                vec![
                    "",
                    "blkdiscard",
                    "write_zeroes",
                    "overwrite",
                    "sanitize_crypto_erase",
                    "format_user_data_erase",
                ],
                vec!["site_erase", "hammer"],
            ),
            (
                "nvme_format",
                vec![
                    "",
                    "sanitize_crypto_erase",
                    "sanitize_block_erase",
                    "format_crypto_erase",
                    "format_user_data_erase",
                ],
                vec!["blkdiscard", "write_zeroes", "overwrite", "site_erase"],
            ),
            (
                "site_erase",
                vec!["", "site_erase"],
                vec!["blkdiscard", "sanitize_crypto_erase"],
            ),
        ] {
            let expected = ExpectedWipe {
                policy: policy.into(),
                ..expected()
            };
            let judged = |erase_method: &str| {
                let proof = WipeEvidence {
                    policy: policy.into(),
                    erase_method: erase_method.into(),
                    ..proof()
                };
                judge(&expected, ALL, &[proof]).is_ok()
            };
            assert!(good.iter().all(|method| judged(method)), "{policy}");
            assert!(!bad.iter().any(|method| judged(method)), "{policy}");
        }
    }

    #[test]
    fn a_certificate_is_verified_where_there_is_one() {
        assert_eq!(
            check_certificate(&expected(), &proof(), ""),
            Ok(Certificate::None)
        );
        let forged = WipeEvidence {
            certificate: "{}".into(),
            ..proof()
        };
        let refused = check_certificate(&expected(), &forged, "").expect_err("no certificate");
        assert!(refused.contains("wipe certificate"), "{refused}");
    }

    /// A statement of the very wipe that [`proof`] is of.
    fn statement() -> Statement {
        let at = |second| Timestamp::from_second(second).expect("a time");
        Statement {
            version: 1,
            slot_id: "s".into(),
            generation: 3,
            allocation_id: "a".into(),
            node_id: "n".into(),
            instance_id: "i".into(),
            device: Device {
                identity: "lab-disk:1".into(),
                serial: String::new(),
                model: String::new(),
                wwid: String::new(),
                bytes: 1024,
            },
            policy: "blkdiscard".into(),
            method: String::new(),
            start_time: at(100),
            end_time: at(200),
            verification: Verification {
                scope: "whole".into(),
                verified_bytes: 1024,
                no_signatures: true,
                end_time: at(300),
            },
            result: "erased".into(),
            sign_time: at(400),
            key_id: String::new(),
        }
    }

    #[test]
    fn p2_a_certificate_is_of_the_allocation_and_the_times_of_its_proof() {
        let seconds = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
        let proof = WipeEvidence {
            wipe_time: seconds(200),
            verify_time: seconds(300),
            ..proof()
        };
        assert_eq!(same_wipe(&expected(), &proof, &statement()), Ok(()));
        let at = |second| Timestamp::from_second(second).expect("a time");
        let refused = |change: fn(&mut Statement, Timestamp), word: &str| {
            let mut other = statement();
            change(&mut other, at(250));
            let refused = same_wipe(&expected(), &proof, &other).expect_err(word);
            assert!(refused.contains(word), "{refused}");
        };
        refused(|said, _| said.allocation_id = "b".into(), "allocation");
        refused(|said, at| said.end_time = at, "time of the wipe");
        refused(
            |said, at| said.verification.end_time = at,
            "time of the verification",
        );
        // an earlier wipe's certificate, under a proof that names no times
        let timeless = WipeEvidence {
            wipe_time: None,
            verify_time: None,
            ..proof.clone()
        };
        assert!(same_wipe(&expected(), &timeless, &statement()).is_err());
        // the clock was set back during the wipe, and again before the disk was read
        let set_back = WipeEvidence {
            wipe_time: seconds(50),
            verify_time: seconds(20),
            ..proof.clone()
        };
        let mut said = statement();
        (said.end_time, said.verification.end_time) = (at(100), at(100));
        assert_eq!(same_wipe(&expected(), &set_back, &said), Ok(()));
    }

    #[test]
    fn c_10_c_11_only_a_whole_proof_of_this_claim_counts() {
        assert!(judge(&expected(), ALL, &[proof()]).is_ok());
        let other_slot = WipeEvidence {
            slot_id: "t".into(),
            ..proof()
        };
        assert!(judge(&expected(), ALL, &[other_slot.clone(), proof()]).is_ok());
        let old = FencingToken {
            slot_generation: 2,
            ..FencingToken::default()
        };
        for (why, evidence) in [
            ("none", vec![]),
            ("another slot", vec![other_slot]),
            ("two", vec![proof(), proof()]),
            (
                "old generation",
                vec![WipeEvidence {
                    token: Some(old),
                    ..proof()
                }],
            ),
            (
                "no token",
                vec![WipeEvidence {
                    token: None,
                    ..proof()
                }],
            ),
            (
                "another policy",
                vec![WipeEvidence {
                    policy: "nvme_format".into(),
                    ..proof()
                }],
            ),
            (
                "another disk",
                vec![WipeEvidence {
                    disk_identity: "lab-disk:2".into(),
                    ..proof()
                }],
            ),
            (
                "smaller disk",
                vec![WipeEvidence {
                    disk_bytes: 512,
                    verified_bytes: 512,
                    ..proof()
                }],
            ),
            (
                "empty disk",
                vec![WipeEvidence {
                    disk_bytes: 0,
                    verified_bytes: 0,
                    ..proof()
                }],
            ),
            (
                "half verified",
                vec![WipeEvidence {
                    verified_bytes: 512,
                    ..proof()
                }],
            ),
            (
                "signature left",
                vec![WipeEvidence {
                    no_signatures: false,
                    ..proof()
                }],
            ),
        ] {
            assert!(judge(&expected(), ALL, &evidence).is_err(), "{why}");
        }
    }
}
