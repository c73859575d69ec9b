//! Writes a result in the format of each version.

use serde_json::{Map, Value, json};

use super::add_result::{AddResult, Dns, IpConfig, ResultInterface, ResultRoute};
use crate::{Error, ErrorCode, Version};

pub(super) fn result(result: &AddResult, version: Version) -> Result<Value, Error> {
    if version < Version::V0_3_0 { before_interfaces(result, version) } else { Ok(current(result, version)) }
}

/// The format of 0.3.0 and later.
fn current(result: &AddResult, version: Version) -> Value {
    let mut object = Map::new();
    object.insert("cniVersion".into(), version.as_str().into());
    let interfaces = result.interfaces.iter().map(|i| interface(i, version)).collect();
    put_list(&mut object, "interfaces", interfaces);
    put_list(&mut object, "ips", result.ips.iter().map(|ip| address(ip, version)).collect());
    put_list(&mut object, "routes", result.routes.iter().map(|r| route(r, version)).collect());
    let dns = dns(&result.dns);
    // Before 1.0.0 the key is always present.
    if version < Version::V1_0_0 || dns.as_object().is_some_and(|dns| !dns.is_empty()) {
        object.insert("dns".into(), dns);
    }
    Value::Object(object)
}

/// The format of 0.1.0 and 0.2.0: the first address of each family, no interfaces.
fn before_interfaces(result: &AddResult, version: Version) -> Result<Value, Error> {
    let mut object = Map::new();
    object.insert("cniVersion".into(), version.as_str().into());
    for (key, v6) in [("ip4", false), ("ip6", true)] {
        let Some(ip) = result.ips.iter().find(|ip| ip.address.is_ipv6() == v6) else { continue };
        let mut config = Map::new();
        config.insert("ip".into(), ip.address.to_string().into());
        put(&mut config, "gateway", ip.gateway.map(|gateway| gateway.to_string()));
        let routes =
            result.routes.iter().filter(|r| r.dst.is_ipv6() == v6).map(|r| route(r, version)).collect();
        put_list(&mut config, "routes", routes);
        object.insert(key.into(), Value::Object(config));
    }
    if object.len() == 1 {
        return Err(Error::new(ErrorCode::INCOMPATIBLE_VERSION, "cannot convert: no valid IP addresses")
            .with_details(format!(
                "cniVersion {version} cannot express a result without addresses; use 0.3.0 or later"
            )));
    }
    object.insert("dns".into(), dns(&result.dns));
    Ok(Value::Object(object))
}

fn interface(interface: &ResultInterface, version: Version) -> Value {
    let mut object = Map::new();
    object.insert("name".into(), interface.name.clone().into());
    put(&mut object, "mac", interface.mac.clone());
    put(&mut object, "sandbox", interface.sandbox.clone());
    if version >= Version::V1_1_0 {
        put(&mut object, "mtu", interface.mtu);
        put(&mut object, "socketPath", interface.socket_path.clone());
        put(&mut object, "pciID", interface.pci_id.clone());
    }
    Value::Object(object)
}

fn address(ip: &IpConfig, version: Version) -> Value {
    let mut object = Map::new();
    if version < Version::V1_0_0 {
        object.insert("version".into(), if ip.address.is_ipv6() { "6" } else { "4" }.into());
    }
    object.insert("address".into(), ip.address.to_string().into());
    put(&mut object, "gateway", ip.gateway.map(|gateway| gateway.to_string()));
    put(&mut object, "interface", ip.interface);
    Value::Object(object)
}

fn route(route: &ResultRoute, version: Version) -> Value {
    let mut object = Map::new();
    object.insert("dst".into(), route.dst.to_string().into());
    put(&mut object, "gw", route.gw.map(|gw| gw.to_string()));
    if version >= Version::V1_1_0 {
        put(&mut object, "mtu", route.mtu);
        put(&mut object, "advmss", route.advmss);
        put(&mut object, "priority", route.priority);
        put(&mut object, "table", route.table);
        put(&mut object, "scope", route.scope);
    }
    Value::Object(object)
}

fn dns(dns: &Dns) -> Value {
    let mut object = Map::new();
    put(&mut object, "domain", dns.domain.clone());
    for (key, list) in [("nameservers", &dns.nameservers), ("search", &dns.search), ("options", &dns.options)]
    {
        if !list.is_empty() {
            object.insert(key.into(), json!(list));
        }
    }
    Value::Object(object)
}

fn put(object: &mut Map<String, Value>, key: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        object.insert(key.into(), value.into());
    }
}

fn put_list(object: &mut Map<String, Value>, key: &str, list: Vec<Value>) {
    if !list.is_empty() {
        object.insert(key.into(), Value::Array(list));
    }
}
