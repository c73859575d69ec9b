//! What the node is called.

/// Nobody says what the node is called.
#[derive(Debug, thiserror::Error)]
#[error("the host has no name that could be a label; say --node-name or set NODE_NAME")]
pub(crate) struct UnknownNodeName;

/// The name that was given, or the host's.
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
    fn a_name_that_was_given_counts_and_an_empty_one_does_not() {
        assert_eq!(of(Some("gpu-07")).unwrap(), "gpu-07");
        assert_eq!(of(Some("")).unwrap(), of(None).unwrap());
    }
}
