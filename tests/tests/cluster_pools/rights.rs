//! What the token of an agent allows.

use silkrail_tests::control_plane::ControlPlane;

#[test]
fn an_agent_can_read_pools_and_write_blocks_only() {
    let plane = ControlPlane::shared();
    let can = |verb: &str, resource: &str| plane.api().can("silkraild-ipam", verb, resource);
    for (verb, resource) in [
        ("list", "spiderippools.spiderpool.spidernet.io"),
        ("watch", "spiderreservedips.spiderpool.spidernet.io"),
        ("create", "ipblocks.ipam.silkrail.io"),
        ("patch", "ipblocks.ipam.silkrail.io"),
        ("delete", "ipblocks.ipam.silkrail.io"),
        ("watch", "nodes"),
        // With conf/silkraild-ipam-pods.
        ("watch", "namespaces"),
        ("delete", "ipreservations.ipam.silkrail.io"),
    ] {
        assert!(can(verb, resource), "{verb} {resource}");
    }
    for verb in ["get", "list", "watch", "create", "update", "patch", "delete"] {
        for resource in
            ["pods", "secrets", "configmaps", "serviceaccounts", "deployments.apps", "clusterroles"]
        {
            assert!(!can(verb, resource), "{verb} {resource}");
        }
    }
    for verb in ["create", "update", "patch", "delete"] {
        for resource in [
            "spiderippools.spiderpool.spidernet.io",
            "spiderreservedips.spiderpool.spidernet.io",
            "nodes",
            "namespaces",
        ] {
            assert!(!can(verb, resource), "{verb} {resource}");
        }
    }
    assert!(!can("deletecollection", "ipreservations.ipam.silkrail.io"));
    assert!(!can("deletecollection", "ipblocks.ipam.silkrail.io"));
}
