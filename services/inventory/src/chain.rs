//! Whose certificate the hosts' intermediate is: the hosts' root signed it, and the services' authority did not.
use anyhow::{Context as _, bail, ensure};
use x509_parser::pem::Pem;
use x509_parser::prelude::X509Certificate;

const INTERMEDIATE: &str = "inventory.host_ca_cert_file";
const HOSTS: &str = "tls.host_ca_file";
const SERVICES: &str = "tls.ca_file";

/// Checks the intermediate, the first certificate of `intermediate`, against the authorities that `hosts` and
/// `services` hold, all in PEM.
///
/// # Errors
/// A text without certificates, by its setting's name. An intermediate that no certificate of the hosts' authority has
/// signed: nobody would hear the hosts that it names. One that the services' authority has signed or that is itself
/// trusted as such: who has its key could name services.
pub fn check(intermediate: &str, hosts: &str, services: &str) -> anyhow::Result<()> {
    let chain = read(INTERMEDIATE, intermediate)?;
    let chain = parse(INTERMEDIATE, &chain)?;
    let (hosts, services) = (read(HOSTS, hosts)?, read(SERVICES, services)?);
    let (hosts, services) = (parse(HOSTS, &hosts)?, parse(SERVICES, &services)?);
    let Some(own) = chain.first() else {
        bail!("setting {INTERMEDIATE}: no certificate in PEM");
    };
    ensure!(
        hosts.iter().any(|root| has_signed(root, own)),
        "setting {INTERMEDIATE}: not signed by the authority of {HOSTS}"
    );
    let is_of_services = |one: &X509Certificate<'_>| {
        services.iter().any(|authority| {
            has_signed(authority, one) || authority.public_key().raw == one.public_key().raw
        })
    };
    ensure!(
        !chain.iter().any(is_of_services),
        "setting {INTERMEDIATE}: signed by the authority of {SERVICES}; an authority of hosts that could name services is none"
    );
    Ok(())
}

fn read(setting: &'static str, pem: &str) -> anyhow::Result<Vec<Pem>> {
    let read: Result<Vec<_>, _> = Pem::iter_from_buffer(pem.as_bytes()).collect();
    let read = read.with_context(|| format!("setting {setting}: malformed PEM"))?;
    ensure!(!read.is_empty(), "setting {setting}: no certificate in PEM");
    Ok(read)
}

fn parse<'a>(setting: &'static str, pem: &'a [Pem]) -> anyhow::Result<Vec<X509Certificate<'a>>> {
    let parsed: Result<Vec<_>, _> = pem.iter().map(Pem::parse_x509).collect();
    parsed.with_context(|| format!("setting {setting}: not a certificate"))
}

fn has_signed(authority: &X509Certificate<'_>, one: &X509Certificate<'_>) -> bool {
    one.issuer() == authority.subject()
        && one.verify_signature(Some(authority.public_key())).is_ok()
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

    use super::*;

    struct Root {
        pem: String,
        issuer: Issuer<'static, KeyPair>,
    }

    fn params(name: &str) -> CertificateParams {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        params
    }

    fn root(name: &str) -> Root {
        let key = KeyPair::generate().expect("key");
        let pem = params(name).self_signed(&key).expect("self-signed").pem();
        let issuer = Issuer::from_ca_cert_pem(&pem, key).expect("issuer");
        Root { pem, issuer }
    }

    fn intermediate(key: &KeyPair, by: &Root) -> String {
        let signed = params("hosts").signed_by(key, &by.issuer);
        signed.expect("signed").pem()
    }

    #[test]
    fn the_intermediate_is_of_the_hosts_authority_and_of_no_other() {
        let (hosts, services, other) = (root("hosts' root"), root("services"), root("other"));
        // the same name, another key
        let impostor = root("hosts' root");
        let key = KeyPair::generate().expect("key");
        let by = |root: &Root| intermediate(&key, root);
        let good = by(&hosts);
        let both = format!("{}{}", other.pem, hosts.pem);
        let cross_signed = format!("{good}{}", by(&services));
        for (intermediate, of_hosts, of_services, refused) in [
            (&good, &hosts.pem, &services.pem, None),
            (&good, &both, &services.pem, None),
            (&good, &other.pem, &services.pem, Some("not signed")),
            (
                &by(&impostor),
                &hosts.pem,
                &services.pem,
                Some("not signed"),
            ),
            (
                &by(&services),
                &hosts.pem,
                &services.pem,
                Some("not signed"),
            ),
            // one authority for all
            (
                &by(&services),
                &services.pem,
                &services.pem,
                Some("name services"),
            ),
            (&good, &hosts.pem, &both, Some("name services")),
            (
                &cross_signed,
                &hosts.pem,
                &services.pem,
                Some("name services"),
            ),
            // the services trust the intermediate itself
            (&good, &hosts.pem, &good, Some("name services")),
            (&good, &String::new(), &services.pem, Some(HOSTS)),
            (&good, &hosts.pem, &"nonsense".to_owned(), Some(SERVICES)),
        ] {
            let checked = check(intermediate, of_hosts, of_services);
            match (checked, refused) {
                (Ok(()), None) => {}
                (Err(error), Some(why)) => {
                    assert!(error.to_string().contains(why), "{error:#}");
                }
                (checked, refused) => panic!("{checked:?}, not {refused:?}"),
            }
        }
    }
}
