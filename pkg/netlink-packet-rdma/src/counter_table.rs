//! Hardware counters in a compact form, for frequent reads.

use netlink_packet_core::{DecodeError, NetlinkDeserializable, NetlinkHeader};

use crate::{
    entries::{entries, fields},
    uapi::*,
};

/// The hardware counters of a reply, without its other attributes.
///
/// The names are kept as one text. They rarely change between reads, and comparing one text is faster than allocating
/// thirty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HwCounterTable {
    /// The names, each of which ends with a NUL.
    names: String,
    /// The values, in the order of the names.
    pub values: Vec<u64>,
}

impl HwCounterTable {
    /// Returns the driver's names of the counters, such as `out_of_sequence`.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.split_terminator('\0')
    }

    /// Returns all names as one text, for comparison.
    pub fn all_names(&self) -> &str {
        &self.names
    }

    /// Adds an entry, unless it lacks a name or a value.
    fn add(&mut self, entry: &[u8]) {
        let (mut name, mut value) = (None, None);
        for field in fields(entry) {
            let (kind, end) = (field.kind(), usize::from(field.length()));
            let bytes = &field.into_inner()[4..end];
            match kind {
                RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME => name = text(bytes),
                RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE => {
                    value = bytes.try_into().ok().map(u64::from_ne_bytes);
                }
                _ => {}
            }
        }
        if let Some((name, value)) = name.zip(value) {
            self.names.push_str(name);
            self.names.push('\0');
            self.values.push(value);
        }
    }
}

/// Returns a text that ends with its only NUL; `None` for any other value.
fn text(value: &[u8]) -> Option<&str> {
    let (end, text) = value.split_last()?;
    let whole = *end == 0 && !text.contains(&0);
    whole.then(|| std::str::from_utf8(text).ok())?
}

impl NetlinkDeserializable for HwCounterTable {
    type Error = DecodeError;

    fn deserialize(_: &NetlinkHeader, payload: &[u8]) -> Result<Self, DecodeError> {
        let mut table = Self { names: String::with_capacity(1024), values: Vec::with_capacity(64) };
        for attribute in
            fields(payload).filter(|attribute| attribute.kind() == RDMA_NLDEV_ATTR_STAT_HWCOUNTERS)
        {
            entries(attribute.value(), RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY)
                .for_each(|entry| table.add(entry));
        }
        Ok(table)
    }
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::NetlinkSerializable;

    use super::*;
    use crate::{HwCounter, NldevAttribute, NldevCommand, NldevMessage, RdmaMessage};

    fn read(counters: Vec<HwCounter>) -> HwCounterTable {
        let attributes = vec![NldevAttribute::DevIndex(3), NldevAttribute::StatHwCounters(counters)];
        let message = RdmaMessage::from(NldevMessage::new(NldevCommand::StatGet, attributes));
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        HwCounterTable::deserialize(&NetlinkHeader::default(), &bytes).unwrap()
    }

    #[test]
    fn names_and_values_are_those_of_the_reply() {
        let counter = |name: &str, value| HwCounter { name: name.into(), value };
        let table = read(vec![counter("out_of_sequence", 7), counter("rx_x", u64::MAX)]);
        assert_eq!(table.names().collect::<Vec<_>>(), ["out_of_sequence", "rx_x"]);
        assert_eq!(table.values, [7, u64::MAX]);
        assert_eq!(read(Vec::new()), HwCounterTable::default());
    }

    #[test]
    fn a_truncated_reply_gives_as_many_names_as_values() {
        let counter = |name: &str| HwCounter { name: name.into(), value: 1 };
        let attributes =
            vec![NldevAttribute::StatHwCounters(vec![counter("a"), counter("bb"), counter("ccc")])];
        let message = RdmaMessage::from(NldevMessage::new(NldevCommand::StatGet, attributes));
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        for end in 0..bytes.len() {
            let table = HwCounterTable::deserialize(&NetlinkHeader::default(), &bytes[..end]).unwrap();
            assert_eq!(table.names().count(), table.values.len());
        }
    }
}
