//! Tables of resources, valid and malformed.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a failing test panics")]

use netlink_packet_core::{Emitable, NLA_F_NESTED, NetlinkDeserializable, NetlinkHeader};
use netlink_packet_rdma::{
    EnabledCounter, HwCounter, HwCounterStatus, NldevAttribute, QueuePairRange, RdmaMessage,
    ResourceAttribute::{self, *},
    ResourceCount, ResourceKind, driver_name,
};

const RES_SUMMARY: u16 = 15;
const RES_QP: u16 = 19;
const RES_SRQ: u16 = 88;
const STAT_COUNTER: u16 = 77;
const STAT_HWCOUNTERS: u16 = 80;

/// Returns an attribute with its padding.
fn nla(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len() + 4).unwrap();
    let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn number(kind: u16, value: u32) -> Vec<u8> {
    nla(kind, &value.to_ne_bytes())
}

/// Decodes a reply with one attribute.
fn read(attribute: &[u8]) -> NldevAttribute {
    let mut header = NetlinkHeader::default();
    header.message_type = 5 << 10 | 10;
    match RdmaMessage::deserialize(&header, attribute).unwrap() {
        RdmaMessage::Nldev(message) => message.attributes.into_iter().next().unwrap(),
        other => panic!("not an nldev message: {other:?}"),
    }
}

fn written(attribute: &NldevAttribute) -> Vec<u8> {
    let mut bytes = vec![0; attribute.buffer_len()];
    attribute.emit(&mut bytes);
    bytes
}

fn entries(attribute: &[u8]) -> Vec<Vec<ResourceAttribute>> {
    match read(attribute) {
        NldevAttribute::Resources(table) => table.entries,
        other => panic!("not a table: {other:?}"),
    }
}

#[test]
fn a_table_is_read_with_and_without_the_nested_flag() {
    let fields = [number(21, 17), nla(26, &[2]), nla(27, &[3]), number(28, 304)].concat();
    for flag in [0, NLA_F_NESTED] {
        let table = nla(RES_QP | flag, &nla(20 | flag, &fields));
        assert_eq!(entries(&table), [vec![Lqpn(17), Type(2), State(3), Pid(304)]]);
    }
}

#[test]
fn an_empty_table_is_a_table() {
    let NldevAttribute::Resources(table) = read(&nla(STAT_COUNTER, &[])) else { panic!("no table") };
    assert_eq!((table.kind, table.entries.len()), (ResourceKind::CounterSet, 0));
}

#[test]
fn padding_is_left_out() {
    let fields = [number(61, 3), nla(0, &[]), nla(38, &7_u64.to_ne_bytes())].concat();
    assert_eq!(entries(&nla(35, &nla(36, &fields))), [vec![Cqn(3), UseCnt(7)]]);
}

#[test]
fn a_malformed_entry_does_not_affect_the_others() {
    let mut broken = [number(21, 2), number(28, 5)].concat();
    broken[8] = 200; // longer than the entry
    let table = [nla(20, &number(21, 1)), nla(20, &broken), nla(99, &[1]), nla(20, &number(21, 3))].concat();
    assert_eq!(entries(&nla(RES_QP, &table)), [vec![Lqpn(1)], vec![Lqpn(2)], vec![Lqpn(3)]]);
}

#[test]
fn a_value_of_another_size_is_kept() {
    let table = entries(&nla(RES_QP, &nla(20, &[nla(21, &[1, 2]), number(28, 5)].concat())));
    let [entry] = table.as_slice() else { panic!("{table:?}") };
    assert!(matches!(entry.as_slice(), [Other(_), Pid(5)]), "{entry:?}");
}

#[test]
fn a_table_in_an_entry_of_a_table_is_not_decoded() {
    let mut deep = number(21, 9);
    for _ in 0..200 {
        deep = nla(RES_SRQ, &nla(89, &deep));
    }
    let table = entries(&deep);
    assert!(matches!(table[0].as_slice(), [Other(_)]), "only one level of tables is decoded");
}

#[test]
fn queue_pairs_of_a_shared_receive_queue_come_as_numbers_and_ranges() {
    let ranges = [number(91, 4), number(92, 7)].concat();
    let queue_pairs = [nla(20 | NLA_F_NESTED, &number(21, 2)), nla(20 | NLA_F_NESTED, &ranges)].concat();
    let table = nla(RES_SRQ, &nla(89, &[number(90, 1), nla(RES_QP | NLA_F_NESTED, &queue_pairs)].concat()));
    let expected = vec![QueuePairRange { first: 2, last: 2 }, QueuePairRange { first: 4, last: 7 }];
    assert_eq!(entries(&table), [vec![Srqn(1), QueuePairs(expected)]]);
    assert_eq!(written(&read(&table)), table, "one is encoded as a number, several as a range");
}

#[test]
fn a_counter_set_has_queue_pairs_and_counters() {
    let counter = [nla(82, b"rx_bytes\0"), nla(0, &[]), nla(83, &9_u64.to_ne_bytes())].concat();
    let fields = [
        number(3, 1),
        number(79, 4),
        number(74, 1),
        nla(RES_QP | NLA_F_NESTED, &nla(20 | NLA_F_NESTED, &number(21, 17))),
        nla(STAT_HWCOUNTERS | NLA_F_NESTED, &nla(81 | NLA_F_NESTED, &counter)),
    ];
    let expected = vec![
        PortIndex(1),
        StatCounterId(4),
        StatMode(1),
        QueuePairs(vec![QueuePairRange { first: 17, last: 17 }]),
        StatHwCounters(vec![HwCounter { name: "rx_bytes".into(), value: 9 }]),
    ];
    assert_eq!(entries(&nla(STAT_COUNTER, &nla(78, &fields.concat()))), [expected]);
}

#[test]
fn counters_without_values_are_statuses() {
    let entry = [nla(82, b"cc_rx_ce_pkts\0"), number(94, 30), nla(95, &[0])].concat();
    let expected = HwCounterStatus { name: "cc_rx_ce_pkts".into(), index: 30, dynamic: Some(0) };
    let table = nla(STAT_HWCOUNTERS | NLA_F_NESTED, &nla(81 | NLA_F_NESTED, &entry));
    assert_eq!(read(&table), NldevAttribute::StatHwCounterStatus(vec![expected]));
}

#[test]
fn a_request_enables_optional_counters_by_their_indexes() {
    let request = NldevAttribute::StatEnabledCounters(vec![EnabledCounter(30), EnabledCounter(31)]);
    let request = [request];
    let mut bytes = vec![0; request.as_slice().buffer_len()];
    request.as_slice().emit(&mut bytes);
    assert_eq!(bytes, nla(STAT_HWCOUNTERS | NLA_F_NESTED, &[number(94, 30), number(94, 31)].concat()));
}

#[test]
fn counters_with_values_are_values_although_others_are_disabled() {
    let counter = |fields: &[Vec<u8>]| nla(81 | NLA_F_NESTED, &fields.concat());
    let (value, name) = (nla(83, &9_u64.to_ne_bytes()), nla(82, b"rx_bytes\0"));
    let disabled = counter(&[nla(82, b"cc_rx_ce_pkts\0"), number(94, 30), nla(95, &[0])]);
    let entries = [disabled, counter(&[name, value.clone()]), counter(&[value])].concat();
    let expected = vec![HwCounter { name: "rx_bytes".into(), value: 9 }];
    assert_eq!(read(&nla(STAT_HWCOUNTERS, &entries)), NldevAttribute::StatHwCounters(expected));
    assert_eq!(read(&nla(STAT_HWCOUNTERS, &[])), NldevAttribute::StatHwCounters(Vec::new()));
}

#[test]
fn a_queue_pair_without_a_number_is_left_out() {
    let pairs = [nla(20, &number(91, 4)), nla(20, &number(28, 5)), nla(20, &number(21, 2))].concat();
    let table = nla(RES_SRQ, &nla(89, &nla(RES_QP | NLA_F_NESTED, &pairs)));
    assert_eq!(entries(&table), [vec![QueuePairs(vec![QueuePairRange { first: 2, last: 2 }])]]);
}

#[test]
fn a_name_may_have_any_bytes_but_one() {
    const DEV_NAME: u16 = 2;
    let name = |value: &[u8]| read(&nla(DEV_NAME, value));
    assert_eq!(name(b"mlx5_\xff\0"), NldevAttribute::DevName("mlx5_\u{fffd}".into()));
    let longest = [&[b'x'; 62][..], b"\xff\0"].concat();
    assert!(matches!(name(&longest), NldevAttribute::DevName(name) if name.chars().count() == 63));
    for other in [&b"mlx5_0"[..], b"mlx5\0_0\0", b"mlx5\0_\xff\0", b"", &[&b"x"[..], &longest].concat()] {
        assert!(matches!(name(other), NldevAttribute::Other(_)), "{other:?}");
    }
    // Only the name of a device is read in spite of that.
    assert!(matches!(read(&nla(5, b"28.\xff\0")), NldevAttribute::Other(_)));
}

#[test]
fn a_message_of_another_client_is_kept() {
    for client in [2_u16, 4, 6] {
        let mut header = NetlinkHeader::default();
        header.message_type = client << 10 | 1;
        let other = RdmaMessage::deserialize(&header, &[1, 2]).unwrap();
        assert_eq!(other, RdmaMessage::Other { kind: client << 10 | 1, payload: vec![1, 2] });
    }
}

#[test]
fn drivers_have_the_numbers_of_the_kernel() {
    let names = [1, 2, 6, 9, 14, 17, 18, 20].map(driver_name);
    assert_eq!(names, ["mlx5", "mlx4", "bnxt_re", "irdma", "rxe", "efa", "siw", "mana"].map(Some));
    assert_eq!([0, 21, 1 << 16 | 1].map(driver_name), [None; 3]);
}

#[test]
fn a_summary_has_names_and_counts() {
    let entry = |name: &[u8], count: u64| nla(16, &[nla(17, name), nla(18, &count.to_ne_bytes())].concat());
    let table = [entry(b"qp\0", 3), nla(16, &[]), entry(b"dmabuf\0", 1)].concat();
    let count = |name: &str, count| ResourceCount { name: name.into(), count };
    assert_eq!(
        read(&nla(RES_SUMMARY, &table)),
        NldevAttribute::ResSummary(vec![count("qp", 3), count("dmabuf", 1)])
    );
}
