//! The addresses that the runtime requests.

use std::net::IpAddr;

use cni::{CallContext, ConfObject};
use plugin_runtime::Error;

use crate::error::IpamError;

/// Returns the requested addresses, in order and without duplicates: those of `runtimeConfig.ips`, `args.cni.ips` and `IP`
/// in `CNI_ARGS`. A requested prefix length is ignored; the result has that of the pool's subnet.
///
/// # Errors
/// The key and the value that is not an address.
pub(crate) fn addresses(common: &CallContext<'_>) -> Result<Vec<IpAddr>, Error> {
    let mut found = Vec::new();
    if let Some(runtime) = common.conf.runtime()? {
        listed(&runtime, &mut found)?;
    }
    if let Some(args) = common.conf.fields().object("args")?
        && let Some(args) = args.object("cni")?
    {
        listed(&args, &mut found)?;
    }
    for text in common.args.get("IP").into_iter().flat_map(|text| text.split(',')) {
        found.push(address(text).ok_or_else(|| IpamError::WrongArgument(text.to_owned()))?);
    }
    let mut once = Vec::with_capacity(found.len());
    for address in found {
        if !once.contains(&address) {
            once.push(address);
        }
    }
    Ok(once)
}

fn listed(fields: &ConfObject<'_>, found: &mut Vec<IpAddr>) -> Result<(), Error> {
    for (index, text) in fields.texts("ips")?.into_iter().enumerate() {
        let wrong =
            || fields.invalid(&format!("ips[{index}]"), "an address like 10.0.0.5", format!("{text:?}"));
        found.push(address(&text).ok_or_else(wrong)?);
    }
    Ok(())
}

/// Parses `10.0.0.5` or `10.0.0.5/24`.
fn address(text: &str) -> Option<IpAddr> {
    let (address, length) =
        text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
    let address: IpAddr = address.parse().ok()?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    let fits = length.is_none_or(|length| length.parse::<u8>().is_ok_and(|length| length <= longest));
    fits.then_some(address)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tests::call;

    #[test]
    fn addresses_of_all_sources_are_requested_once_and_in_order() {
        let conf = json!({
            "runtimeConfig": {"ips": ["10.0.0.5/24", "fd00::5"]}, "args": {"cni": {"ips": ["10.0.0.6", "10.0.0.5"]}},
        });
        let found = addresses(&call(&conf, "IP=10.0.0.7/32,fd00::5/128")).unwrap();
        let texts: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["10.0.0.5", "fd00::5", "10.0.0.6", "10.0.0.7"]);
        assert_eq!(addresses(&call(&json!({}), "")).unwrap(), [] as [IpAddr; 0]);
        for wrong in ["10.0.0.5/33", "fd00::5/129", "10.0.0.5/", "10.0.0.5/a", "10.0.0", "10.0.0.5,,10.0.0.6"]
        {
            assert!(addresses(&call(&json!({}), &format!("IP={wrong}"))).is_err(), "{wrong}");
        }
        let second = json!({"runtimeConfig": {"ips": ["10.0.0.5", "x"]}});
        assert!(addresses(&call(&second, "")).unwrap_err().to_string().contains("runtimeConfig.ips[1]"));
    }
}
