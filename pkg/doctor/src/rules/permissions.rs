//! Files that root trusts.

use crate::{Finding, FindingId, NodeFacts};

const WRITABLE: FindingId = FindingId::new(
    "file-writable",
    "Others than root can change a plugin, a network, the configuration or the state: they can become root",
);
const SECRET: FindingId = FindingId::new("secret-readable", "All users can read a file with a secret");

pub(super) const IDS: &[FindingId] = &[WRITABLE, SECRET];

pub(super) fn examine(facts: &NodeFacts, found: &mut Vec<Finding>) {
    for (path, about) in &facts.permissions.writable {
        let finding =
            WRITABLE.error(path, "others than root can change it, and root uses it: they can become root");
        found.push(finding.because(about).fix(format!("chown root:root {path} && chmod go-w {path}")));
    }
    for (path, about) in &facts.permissions.readable_secrets {
        let finding = SECRET.warning(path, "all users can read this secret");
        found.push(
            finding
                .because(about)
                .fix(format!("chmod 0600 {path}; replace the secret if others may have read it")),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::with;

    #[test]
    fn what_others_can_change_or_read_is_reported() {
        let entry = |path: &str| (path.to_owned(), "owner 0:0, mode 0666".to_owned());
        let found = with(|facts| {
            facts.permissions.writable.push(entry("/opt/cni/bin/macvlan"));
            facts.permissions.readable_secrets.push(entry("/etc/silkrail/check.token"));
        });
        assert_eq!(
            found,
            ["error file-writable /opt/cni/bin/macvlan", "warning secret-readable /etc/silkrail/check.token"]
        );
    }
}
