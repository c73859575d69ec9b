//! Parsing an arbitrary cgroup name does not panic, and a pod in a well-formed path is found.

use kubepods::{PodCgroup, PodUid, RdmaLimit, RdmaUsage, membership};
use proptest::prelude::*;

/// Random concatenations of the parts of pods' cgroup paths.
fn pieces() -> impl Strategy<Value = String> {
    let uid = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
    let piece = prop_oneof![
        Just("/".to_owned()),
        Just("/..".to_owned()),
        Just("kubepods".to_owned()),
        Just("burstable".to_owned()),
        Just("-pod".to_owned()),
        Just("pod".to_owned()),
        Just(".slice".to_owned()),
        Just(":".to_owned()),
        Just("\n0::/".to_owned()),
        Just(" (deleted)".to_owned()),
        uid.prop_map(|uid| uid),
        "\\PC{0,3}".prop_map(|text| text),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// The cgroups above `kubepods`, with any name that an operator can configure.
fn prefix() -> impl Strategy<Value = String> {
    prop::collection::vec("[a-z0-9][a-z0-9.:_@é-]{0,12}", 0..4)
        .prop_filter("user.slice, or similar to a pod's name", |names| {
            names.iter().all(|name| name != "user.slice" && !name.contains("pod"))
        })
        .prop_map(|names| names.iter().map(|name| format!("/{name}")).collect())
}

proptest! {
    #[test]
    fn no_text_makes_parsing_panic(text in "(\\PC|[\n/:._-]|pod|kubepods){0,200}") {
        let _ = membership(&text);
        let _ = PodCgroup::find("/nonexistent".as_ref(), &text);
        let _ = (RdmaUsage::parse(&text), RdmaLimit::parse(&text));
        let _ = text.parse::<PodUid>();
    }

    #[test]
    fn no_mixture_of_names_makes_parsing_panic(text in pieces()) {
        if let Some(found) = membership(&format!("0::/{text}")) {
            prop_assert_eq!(found.pod.as_str().parse::<PodUid>().unwrap(), found.pod);
            prop_assert!(found.container.is_none_or(|id| id.len() == 64));
        }
        let _ = PodCgroup::find("/nonexistent".as_ref(), &format!("0::/{text}"));
    }

    #[test]
    fn a_pod_in_a_well_formed_path_is_found(
        prefix in prefix(),
        groups in ("[0-9a-f]{8}", "[0-9a-f]{4}", "[0-9a-f]{4}", "[0-9a-f]{4}", "[0-9a-f]{12}"),
        qos in prop::sample::select(vec!["", "burstable", "besteffort"]),
        id in "[0-9a-f]{64}",
        below in "(/[^\n/]{1,9}){0,3}",
    ) {
        let (a, b, c, d, e) = groups;
        let uid = format!("{a}-{b}-{c}-{d}-{e}");
        let level = if qos.is_empty() { String::new() } else { format!("/{qos}") };
        let cgroupfs = format!("0::{prefix}/kubepods{level}/pod{uid}/{id}{below}\n");
        let above = if qos.is_empty() { "kubepods".into() } else { format!("kubepods-{qos}") };
        let systemd = format!("0::{prefix}/{above}.slice/{above}-pod{}.slice/crio-{id}.scope{below}\n", uid.replace('-', "_"));
        for text in [cgroupfs, systemd] {
            let found = membership(&text).unwrap();
            prop_assert_eq!(found.pod.as_str(), &uid, "{}", text);
            prop_assert_eq!(found.container.as_deref(), Some(id.as_str()), "{}", text);
        }
    }
}
