//! An ingress mapping as it is requested (J-13).

use std::net::Ipv4Addr;

use gpuaas_proto::gpuaas::allocation::v1::IngressMappingConfig;
use gpuaas_proto::gpuaas::common::v1::IngressProtocol;

use super::FieldError;

/// Most networks that a mapping names.
const MOST_SOURCES: usize = 16;

/// What is requested of a mapping, but its expiry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requested {
    /// "tcp" or "udp".
    pub protocol: &'static str,
    pub vm_port: u16,
    /// None: any that is free.
    pub external_port: Option<u16>,
    /// Networks that may connect; none: everybody.
    pub sources: Vec<String>,
}

/// Reads a request.
///
/// # Errors
/// The field that breaks a rule, by its path.
pub fn parse(config: &IngressMappingConfig) -> Result<Requested, FieldError> {
    let protocol = match config.protocol() {
        IngressProtocol::Tcp => "tcp",
        IngressProtocol::Udp => "udp",
        IngressProtocol::Unspecified => return Err(FieldError::required("config.protocol")),
    };
    if config.vm_port == 0 {
        return Err(FieldError::required("config.vm_port"));
    }
    let external_port = match config.external_port {
        0 => None,
        number => Some(port("config.external_port", number)?),
    };
    if config.source_cidrs.len() > MOST_SOURCES {
        let rule = format!("must be at most {MOST_SOURCES} networks");
        return Err(FieldError::invalid("config.source_cidrs", rule));
    }
    let sources = config.source_cidrs.iter().map(|text| network(text));
    Ok(Requested {
        protocol,
        vm_port: port("config.vm_port", config.vm_port)?,
        external_port,
        sources: sources.collect::<Result<_, _>>()?,
    })
}

fn port(field: &'static str, number: u32) -> Result<u16, FieldError> {
    u16::try_from(number)
        .map_err(|_| FieldError::invalid(field, "must be a port from 1 to 65535".to_owned()))
}

/// A network in its one form.
fn network(text: &str) -> Result<String, FieldError> {
    let rule = || {
        let rule = format!(
            "must be IPv4 networks like 198.51.100.0/24, without bits of a host; {text:?} is none"
        );
        FieldError::invalid("config.source_cidrs", rule)
    };
    let (address, length) = text.split_once('/').ok_or_else(rule)?;
    let address: Ipv4Addr = address.parse().map_err(|_| rule())?;
    let length: u32 = length.parse().map_err(|_| rule())?;
    let host_bits = u32::MAX.checked_shr(length).unwrap_or(0);
    if length > 32 || u32::from(address) & host_bits != 0 {
        return Err(rule());
    }
    Ok(format!("{address}/{length}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> IngressMappingConfig {
        IngressMappingConfig {
            protocol: IngressProtocol::Tcp.into(),
            vm_port: 443,
            external_port: 0,
            source_cidrs: vec!["198.51.100.0/24".into(), "0.0.0.0/0".into()],
            expire_time: None,
        }
    }

    #[test]
    fn j_13_what_is_requested_names_the_field_that_it_breaks() {
        let good = parse(&config()).unwrap();
        assert_eq!(
            (good.protocol, good.vm_port, good.external_port),
            ("tcp", 443, None)
        );
        type Break = fn(&mut IngressMappingConfig);
        let breaks: [(&str, Break); 9] = [
            ("config.protocol", |one| one.protocol = 0),
            ("config.vm_port", |one| one.vm_port = 0),
            ("config.vm_port", |one| one.vm_port = 65_536),
            ("config.external_port", |one| one.external_port = 70_000),
            ("config.source_cidrs", |one| {
                one.source_cidrs = vec!["198.51.100.1/24".into()];
            }),
            ("config.source_cidrs", |one| {
                one.source_cidrs = vec!["198.51.100.0".into()];
            }),
            ("config.source_cidrs", |one| {
                one.source_cidrs = vec!["2001:db8::/32".into()];
            }),
            ("config.source_cidrs", |one| {
                one.source_cidrs = vec!["10.0.0.0/33".into()];
            }),
            ("config.source_cidrs", |one| {
                one.source_cidrs = vec!["10.0.0.0/8".into(); 17];
            }),
        ];
        for (field, change) in breaks {
            let mut wrong = config();
            change(&mut wrong);
            assert_eq!(parse(&wrong).unwrap_err().field, field);
        }
    }
}
