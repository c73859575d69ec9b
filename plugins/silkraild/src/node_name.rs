//! The name of the node: the label `node` of all metrics.

/// No option is set, and the hostname is empty or not UTF-8.
#[derive(Debug, thiserror::Error)]
#[error("the hostname is empty or not valid UTF-8; set --node-name or NODE_NAME")]
pub(crate) struct UnknownNodeName;

/// Returns `given` unless it is empty, else the hostname.
pub(crate) fn of(given: Option<&str>) -> Result<String, UnknownNodeName> {
    if let Some(given) = given.filter(|given| !given.is_empty()) {
        return Ok(given.to_owned());
    }
    let host = nix::unistd::gethostname().ok().and_then(|host| host.into_string().ok());
    host.filter(|host| !host.is_empty()).ok_or(UnknownNodeName)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_name_is_ignored() {
        assert_eq!(of(Some("gpu-07")).unwrap(), "gpu-07");
        assert_eq!(of(Some("")).unwrap(), of(None).unwrap());
    }
}
