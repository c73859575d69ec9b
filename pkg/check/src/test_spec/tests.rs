//! Tests of `test_spec`.

use super::*;

#[test]
fn numbers_out_of_their_bounds_are_refused() {
    assert_eq!("64K".parse::<Size>().unwrap().get(), 65_536);
    assert_eq!("8M".parse::<Size>().unwrap().get(), 8 << 20);
    for bad in ["0", "9M", "-1", "+1", "", "K", "1G", "18446744073709551615M", "1 "] {
        assert!(bad.parse::<Size>().is_err(), "{bad:?}");
    }
    assert!("0".parse::<Seconds>().is_err() && "3601".parse::<Seconds>().is_err());
    assert!(serde_json::from_str::<QueuePairs>("-1").is_err());
    assert!(serde_json::from_str::<QueuePairs>("\"1\"").is_err());
    assert!(serde_json::from_str::<QueuePairs>("1025").is_err());
    assert!(serde_json::from_str::<PortNumber>("256").is_err());
}

#[test]
fn a_device_name_cannot_be_an_option_a_path_or_shell_code() {
    for good in ["mlx5_0", "rxe0", "bnxt_re-bond0", "_x", "rocep175s0f0.1"] {
        assert_eq!(good.parse::<DeviceName>().unwrap().as_str(), good);
    }
    let long = "a".repeat(64);
    for bad in ["", "-d", "--help", "..", "a/b", "a b", "a;b", "a\0", "$(x)", "mlx5\n", long.as_str()] {
        assert!(bad.parse::<DeviceName>().is_err(), "{bad:?}");
        assert!(serde_json::from_value::<DeviceName>(bad.into()).is_err(), "{bad:?}");
    }
}

#[test]
fn a_test_with_an_unknown_field_is_refused() {
    let test = r#"{"kind":"bandwidth","operation":"write","size":8,"queuePairs":1,"duration":1"#;
    assert!(serde_json::from_str::<TestSpec>(&format!("{test}}}")).is_ok());
    assert!(serde_json::from_str::<TestSpec>(&format!("{test},\"shell\":\"x\"}}")).is_err());
}

#[test]
fn the_memory_of_a_test_is_limited() {
    let test = |size: &str, queue_pairs: &str| {
        let (size, queue_pairs) = (size.parse().unwrap(), queue_pairs.parse().unwrap());
        TestSpec::new(TestKind::Bandwidth, RdmaOperation::Write, size, queue_pairs, "1".parse().unwrap())
    };
    assert!(
        test("8M", "128").require_consistent().is_ok() && test("1M", "1024").require_consistent().is_ok()
    );
    let error = test("8M", "129").require_consistent().unwrap_err().to_string();
    assert_eq!(error, "8388608 bytes with 129 queue pairs: expected at most 1 GiB in total");
}

#[test]
fn options_are_within_their_bounds_and_belong_to_the_kind_of_the_test() {
    let test = r#"{"kind":"latency","operation":"write","size":8,"queuePairs":1,"duration":1,"options":"#;
    let parse = |options: &str| serde_json::from_str::<TestSpec>(&format!("{test}{options}}}"));
    assert!(parse(r#"{"trafficClass":106,"serviceLevel":3,"gpu":7}"#).unwrap().require_consistent().is_ok());
    for bad in [
        r#"{"trafficClass":256}"#,
        r#"{"serviceLevel":16}"#,
        r#"{"gpu":64}"#,
        r#"{"gpu":"0; reboot"}"#,
        r#"{"shell":"x"}"#,
    ] {
        assert!(parse(bad).is_err(), "{bad}");
    }
    let error = parse(r#"{"bidirectional":true}"#).unwrap().require_consistent().unwrap_err();
    assert_eq!(error.to_string(), "bidirectional: expected a test of bandwidth");
    let plain = parse("{}").unwrap();
    assert!(
        !serde_json::to_string(&plain).unwrap().contains("options"),
        "options without values are omitted"
    );
}

#[test]
fn a_number_of_messages_is_one_of_latency() {
    let mut test = TestSpec::new(
        TestKind::Latency,
        RdmaOperation::Send,
        Size::DEFAULT,
        QueuePairs::LATENCY_DEFAULT,
        Seconds::SHORTEST,
    );
    test.messages = "5".parse().ok();
    assert!(test.require_consistent().is_ok() && "4".parse::<Iterations>().is_err());
    test.kind = TestKind::Bandwidth;
    assert!(test.require_consistent().is_err());
    (test.messages, test.options.bidirectional) = (None, true);
    assert!(test.require_consistent().is_ok() && test.directions() == 2);
}

#[test]
fn a_requested_device_is_not_completed_with_the_port_of_another() {
    let selector = |device: &str, port: u64, gid_index| PortSelector {
        device: device.parse().ok(),
        port: port.try_into().ok(),
        gid_index,
    };
    let default = selector("mlx5_1", 2, Some(3));
    assert_eq!(selector("mlx5_0", 0, None).or(&default), selector("mlx5_0", 0, None));
    assert_eq!(PortSelector::default().or(&default), default);
    assert_eq!(selector("", 1, Some(5)).or(&default), selector("mlx5_1", 1, Some(5)));
    assert_eq!(selector("", 1, None).or(&PortSelector::default()), selector("", 1, None));
    assert_eq!(PortSelector::default().or(&selector("", 2, Some(3))), selector("", 2, Some(3)));
    assert_eq!(PortSelector::default().or(&selector("", 0, Some(3))).gid_index, None, "an index of no port");
}

#[test]
fn a_sweep_doubles_and_ends() {
    let size = |n: u64| Size::try_from(n).unwrap();
    let sizes: Vec<_> = Size::sweep(size(2), size(20)).into_iter().map(Size::get).collect();
    assert_eq!(sizes, [2, 4, 8, 16]);
    assert_eq!(Size::sweep(size(1), size(8 << 20)).len(), 24);
    assert!(Size::sweep(size(4), size(2)).is_empty());
}
