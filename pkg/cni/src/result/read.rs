//! Parses the results of other plugins.

use std::net::IpAddr;

use ipnetwork::IpNetwork;
use serde_json::Value;

use super::add_result::{AddResult, Dns, IpConfig, ResultInterface, ResultRoute};
use crate::{ConfObject, Error, ErrorCode, Version};

/// Parses the `prevResult` of a configuration of version `conf`.
pub(crate) fn prev_result(value: &Value, conf: Version) -> Result<AddResult, Error> {
    let fields = object(value, "prevResult")?;
    let written = fields.text("cniVersion")?.unwrap_or(conf.as_str());
    let version = Version::from_conf(written).ok().filter(|version| version.same_family(conf));
    let Some(version) = version else {
        let family: Vec<_> = conf.family().iter().map(|v| v.as_str()).collect();
        return Err(Error::new(
            ErrorCode::DECODE,
            format!(
                "could not parse prevResult: result type supports [{}] but unmarshalled CNIVersion is {written:?}",
                family.join(" ")
            ),
        ));
    };
    result(&fields, version)
        .map_err(|e| Error { code: ErrorCode::DECODE, ..e.context("could not parse prevResult") })
}

/// Parses the standard output of a delegate that was called with a configuration of version `conf`.
pub(super) fn delegate_result(stdout: &[u8], conf: Version) -> Result<AddResult, Error> {
    let decode =
        |why: String| Error::new(ErrorCode::DECODE, format!("cannot parse the IPAM plugin's result: {why}"));
    let value: Value = serde_json::from_slice(stdout).map_err(|e| decode(e.to_string()))?;
    if value.is_null() {
        return Ok(AddResult::default());
    }
    let fields = object(&value, "").map_err(|e| decode(e.msg))?;
    let version = match fields.text("cniVersion").map_err(|e| decode(e.msg))? {
        Some(text) => Version::from_conf(text)?,
        None => conf,
    };
    result(&fields, version).map_err(|e| decode(e.msg))
}

fn object<'a>(value: &'a Value, at: &str) -> Result<ConfObject<'a>, Error> {
    let object =
        value.as_object().ok_or_else(|| Error::config(format!("{at}: expected an object, found {value}")))?;
    Ok(ConfObject::new(object, at))
}

fn result(fields: &ConfObject<'_>, version: Version) -> Result<AddResult, Error> {
    let mut result = AddResult::default();
    if version < Version::V0_3_0 {
        for key in ["ip4", "ip6"] {
            if let Some(config) = fields.object(key)? {
                before_interfaces(&config, &mut result)?;
            }
        }
    } else {
        result.interfaces = each(fields, "interfaces", interface)?;
        result.ips = each(fields, "ips", address)?;
        result.routes = each(fields, "routes", route)?;
    }
    if let Some(fields) = fields.object("dns")? {
        result.dns = dns(&fields)?;
    }
    Ok(result)
}

fn before_interfaces(config: &ConfObject<'_>, result: &mut AddResult) -> Result<(), Error> {
    result.ips.push(IpConfig {
        address: required_network(config, "ip")?,
        gateway: ip(config, "gateway")?,
        interface: None,
    });
    result.routes.extend(each(config, "routes", route)?);
    Ok(())
}

fn each<T>(
    fields: &ConfObject<'_>,
    key: &str,
    read: fn(&ConfObject<'_>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let items = fields.list(key)?.iter().enumerate();
    items.map(|(i, item)| read(&object(item, &format!("{}[{i}]", fields.path(key)))?)).collect()
}

fn interface(fields: &ConfObject<'_>) -> Result<ResultInterface, Error> {
    let text = |key: &str| Ok::<_, Error>(fields.text(key)?.map(str::to_owned));
    Ok(ResultInterface {
        name: text("name")?.unwrap_or_default(),
        mac: text("mac")?,
        mtu: number(fields, "mtu")?.filter(|mtu| *mtu > 0),
        sandbox: text("sandbox")?,
        socket_path: text("socketPath")?,
        pci_id: text("pciID")?,
    })
}

fn address(fields: &ConfObject<'_>) -> Result<IpConfig, Error> {
    Ok(IpConfig {
        address: required_network(fields, "address")?,
        gateway: ip(fields, "gateway")?,
        // Some plugins write -1 for "no interface".
        interface: fields.integer("interface")?.and_then(|index| usize::try_from(index).ok()),
    })
}

fn route(fields: &ConfObject<'_>) -> Result<ResultRoute, Error> {
    Ok(ResultRoute {
        dst: required_network(fields, "dst")?,
        gw: ip(fields, "gw")?,
        mtu: number(fields, "mtu")?.filter(|n| *n > 0),
        advmss: number(fields, "advmss")?.filter(|n| *n > 0),
        priority: number(fields, "priority")?.filter(|n| *n > 0),
        table: number(fields, "table")?,
        scope: number(fields, "scope")?,
    })
}

/// Parses resolver settings.
pub(crate) fn dns(fields: &ConfObject<'_>) -> Result<Dns, Error> {
    Ok(Dns {
        nameservers: fields.texts("nameservers")?,
        domain: fields.text("domain")?.map(str::to_owned),
        search: fields.texts("search")?,
        options: fields.texts("options")?,
    })
}

fn number<N: TryFrom<i64>>(fields: &ConfObject<'_>, key: &str) -> Result<Option<N>, Error> {
    let Some(value) = fields.integer(key)? else { return Ok(None) };
    N::try_from(value).map(Some).map_err(|_| fields.invalid(key, "a number in range", value))
}

fn ip(fields: &ConfObject<'_>, key: &str) -> Result<Option<IpAddr>, Error> {
    let Some(text) = fields.text(key)? else { return Ok(None) };
    text.parse().map(Some).map_err(|_| fields.invalid(key, "an IP address", format!("{text:?}")))
}

fn required_network(fields: &ConfObject<'_>, key: &str) -> Result<IpNetwork, Error> {
    let text = fields.text(key)?.unwrap_or_default();
    let wrong =
        || fields.invalid(key, "an address with prefix length, like 10.0.0.5/24", format!("{text:?}"));
    // Without a prefix length, ipnetwork would assume a host address.
    if !text.contains('/') {
        return Err(wrong());
    }
    text.parse().map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn full() -> AddResult {
        AddResult {
            interfaces: vec![ResultInterface {
                name: "net1".into(),
                mac: Some("c2:11:22:33:44:55".into()),
                mtu: Some(4200),
                sandbox: Some("/run/netns/pod".into()),
                socket_path: Some("/run/vhost".into()),
                pci_id: Some("0000:af:00.1".into()),
            }],
            ips: vec![
                IpConfig {
                    address: "172.81.0.100/16".parse().unwrap(),
                    gateway: Some("172.81.0.1".parse().unwrap()),
                    interface: Some(0),
                },
                IpConfig { address: "fd00::5/64".parse().unwrap(), gateway: None, interface: Some(0) },
            ],
            routes: vec![ResultRoute {
                mtu: Some(1400),
                advmss: Some(1360),
                priority: Some(50),
                table: Some(0),
                scope: Some(0),
                ..ResultRoute::new("10.0.0.0/8".parse().unwrap(), Some("172.81.0.1".parse().unwrap()))
            }],
            dns: Dns {
                nameservers: vec!["10.0.0.2".into()],
                domain: Some("example".into()),
                search: vec!["ai.example".into()],
                options: vec!["ndots:2".into()],
            },
        }
    }

    #[test]
    fn a_1_1_0_result_is_parsed_without_loss() {
        let value = full().to_value(Version::V1_1_0).unwrap();
        assert_eq!(prev_result(&value, Version::V1_1_0).unwrap(), full());
    }

    #[test]
    fn older_versions_have_only_their_own_fields() {
        let v040 = full().to_value(Version::V0_4_0).unwrap();
        assert_eq!(v040["ips"][0]["version"], "4");
        assert_eq!(v040["ips"][1]["version"], "6");
        assert_eq!(v040["interfaces"][0].get("mtu"), None);
        assert_eq!(v040["routes"][0].get("mtu"), None);
        let v020 = full().to_value(Version::V0_2_0).unwrap();
        assert_eq!(v020["ip4"]["ip"], "172.81.0.100/16");
        assert_eq!(v020["ip4"]["routes"], json!([{"dst": "10.0.0.0/8", "gw": "172.81.0.1"}]));
        assert_eq!(v020["ip6"]["ip"], "fd00::5/64");
        assert_eq!(v020.get("interfaces"), None);
        assert_eq!(v020["ip6"].get("routes"), None);
    }

    #[test]
    fn a_result_before_0_3_0_has_the_addresses_and_routes_of_both_families() {
        let mut both = full();
        let v6 = ResultRoute::new("fd01::/64".parse().unwrap(), Some("fd00::1".parse().unwrap()));
        both.routes.push(v6.clone());
        // It has the first address of a family.
        let second = IpConfig { address: "172.81.0.200/16".parse().unwrap(), gateway: None, interface: None };
        both.ips.push(second);
        let read = prev_result(&both.to_value(Version::V0_2_0).unwrap(), Version::V0_1_0).unwrap();
        let addresses: Vec<_> = read.ips.iter().map(|ip| ip.address.to_string()).collect();
        assert_eq!(addresses, ["172.81.0.100/16", "fd00::5/64"]);
        assert_eq!(read.ips[0].gateway, full().ips[0].gateway);
        assert_eq!((read.routes.len(), &read.routes[1], read.dns), (2, &v6, full().dns));
    }

    #[test]
    fn what_plugins_write_for_no_value_is_none() {
        let value = json!({
            "interfaces": [{"name": "net1", "mac": "", "mtu": 0}],
            "ips": [{"address": "10.0.0.5/24", "gateway": "", "interface": -1}],
            "routes": [{"dst": "10.0.0.0/8", "gw": "", "mtu": 0, "advmss": 0, "priority": 0, "table": 0, "scope": 0}],
        });
        let read = prev_result(&value, Version::V1_1_0).unwrap();
        let interface = ResultInterface { name: "net1".into(), ..ResultInterface::default() };
        assert_eq!(read.interfaces, [interface]);
        assert_eq!((read.ips[0].gateway, read.ips[0].interface), (None, None));
        // The kernel has a table and a scope of this number.
        let route = ResultRoute::new("10.0.0.0/8".parse().unwrap(), None);
        assert_eq!(read.routes, [ResultRoute { table: Some(0), scope: Some(0), ..route }]);
        for (key, number) in [("mtu", -1_i64), ("priority", 1 << 32), ("scope", 256)] {
            let value = json!({"routes": [{"dst": "10.0.0.0/8", key: number}]});
            let error = prev_result(&value, Version::V1_1_0).unwrap_err();
            assert!(error.msg.contains(&format!("routes[0].{key}: expected a number in range")), "{error}");
        }
    }

    #[test]
    fn dns_is_always_there_before_1_0_0() {
        let empty = AddResult { dns: Dns::default(), ..full() };
        assert_eq!(empty.to_value(Version::V0_4_0).unwrap()["dns"], json!({}));
        assert_eq!(empty.to_value(Version::V1_0_0).unwrap().get("dns"), None);
    }

    #[test]
    fn a_result_without_addresses_has_no_0_2_0_form() {
        let l2 = AddResult { ips: vec![], ..full() };
        assert_eq!(l2.to_json(Version::V0_2_0).unwrap_err().msg, "cannot convert: no valid IP addresses");
        assert!(l2.to_json(Version::V0_3_0).is_ok());
    }

    #[test]
    fn a_prev_result_of_another_family_is_refused() {
        for (written, conf) in [
            ("0.3.0", Version::V0_4_0),
            ("0.4.0", Version::V0_3_1),
            ("1.0.0", Version::V1_1_0),
            ("", Version::V0_3_0),
        ] {
            let value = json!({"cniVersion": written, "ips": [{"address": "10.0.0.5/24"}]});
            assert_eq!(prev_result(&value, conf).unwrap().ips.len(), 1, "{written} {conf}");
        }
        let error = prev_result(&json!({"cniVersion": "0.4.0"}), Version::V1_0_0).unwrap_err();
        assert_eq!(
            error.msg,
            "could not parse prevResult: result type supports [1.0.0 1.1.0] but unmarshalled CNIVersion is \"0.4.0\""
        );
    }

    #[test]
    fn an_error_contains_the_key_path() {
        let value = json!({"ips": [{"address": "10.0.0.5"}]});
        let error = prev_result(&value, Version::V1_0_0).unwrap_err();
        assert!(
            error.msg.contains("prevResult.ips[0].address: expected an address with prefix length"),
            "{error}"
        );
    }

    #[test]
    fn case_024_a_delegates_result_without_a_version_has_the_version_of_the_configuration() {
        let result = AddResult::from_delegate(br#"{"ip4": {"ip": "10.0.0.5/24"}}"#, Version::V0_2_0).unwrap();
        assert_eq!(result.ips[0].address.to_string(), "10.0.0.5/24");
        let own = br#"{"cniVersion": "0.2.0", "ip6": {"ip": "fd00::5/64"}}"#;
        assert_eq!(
            AddResult::from_delegate(own, Version::V1_0_0).unwrap().ips.len(),
            1,
            "it has its own version"
        );
        let unknown = AddResult::from_delegate(br#"{"cniVersion": "9.9.9"}"#, Version::V1_0_0).unwrap_err();
        assert_eq!(unknown.code, ErrorCode::INCOMPATIBLE_VERSION);
        assert_eq!(AddResult::from_delegate(b"null", Version::V1_0_0).unwrap(), AddResult::default());
        assert_eq!(AddResult::from_delegate(b"", Version::V1_0_0).unwrap_err().code, ErrorCode::DECODE);
    }
}
