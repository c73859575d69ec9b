//! Requests to real links. No virtual link has DCB, so only the errors can be tested.

use dcb::{AppPriority, AppSelector, DcbxMode, Error, Handle};
use identifiers::LinkName;
use testkit::{Observe, TestNode};

const DSCP_26: AppPriority = AppPriority { selector: AppSelector::Dscp, protocol: 26, priority: 3 };

#[test]
fn a_link_without_dcb_is_unsupported() {
    let node = TestNode::new();
    node.run_ip("link add v0 type veth peer name v1");
    let (handle, v0): (_, LinkName) = (Handle::open().unwrap(), "v0".parse().unwrap());
    let error = handle.settings(&v0).unwrap_err();
    assert!(error.is_unsupported(), "{error:?}");
    assert_eq!(
        error.to_string(),
        "link v0: DCB is not supported by its driver or by this kernel; use a PF whose driver has it"
    );
    for result in [
        handle.set_pfc(&v0, &[3]),
        handle.add_app(&v0, DSCP_26),
        handle.del_app(&v0, DSCP_26),
        handle.set_trust(&v0, &[AppSelector::Dscp]),
        handle.set_dcbx(&v0, DcbxMode::default()),
    ] {
        assert!(matches!(result, Err(Error::Unsupported { .. })), "{result:?}");
    }
    assert!(matches!(handle.set_pfc(&v0, &[8]), Err(Error::InvalidPriority { .. })));
    let unknown = AppPriority { protocol: 64, ..DSCP_26 };
    assert!(matches!(handle.add_app(&v0, unknown), Err(Error::InvalidApp { .. })));
}

#[test]
fn a_link_that_does_not_exist_is_not_found() {
    let _node = TestNode::new();
    let handle = Handle::open().unwrap();
    // Also the longest name is sent whole.
    for name in ["rail0", "a23456789012345"] {
        let error = handle.settings(&name.parse().unwrap()).unwrap_err();
        assert!(matches!(error, Error::NoSuchLink { .. }), "{error:?}");
        assert_eq!(error.to_string(), format!("link {name}: not found in this network namespace"));
    }
}
