//! The specification of a test. Each value is within its bounds.
//!
//! The values come from a command line or from the network and become arguments of a program. These types cannot be
//! constructed without a check.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{RdmaOperation, TestKind};

/// The specification of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TestSpec {
    /// The quantity to measure.
    pub kind: TestKind,
    /// The RDMA operation.
    pub operation: RdmaOperation,
    /// The message size in bytes.
    pub size: Size,
    /// The number of queue pairs; 1 for latency.
    pub queue_pairs: QueuePairs,
    /// The duration of the measurement.
    pub duration: Seconds,
    /// The number of messages, instead of the duration; only for latency. perftest computes percentiles only then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<Iterations>,
    /// How the data is transferred.
    #[serde(default, skip_serializing_if = "TrafficOptions::is_default")]
    pub options: TrafficOptions,
}

/// How the data of a test is transferred.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TrafficOptions {
    /// The traffic class of RoCE packets: DSCP and ECN bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic_class: Option<TrafficClass>,
    /// The service level of InfiniBand; the priority of RoCE packets with a VLAN tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_level: Option<ServiceLevel>,
    /// Whether both ends transfer data at the same time; only for bandwidth, which is then the sum of both directions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bidirectional: bool,
    /// The GPU in whose memory the data is, at both ends; the memory of the host otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuIndex>,
}

impl TrafficOptions {
    /// Whether no option is set.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the names and values of the options that are set.
    pub fn names(&self) -> Vec<(&'static str, String)> {
        let all = [
            ("traffic_class", self.traffic_class.map(|class| class.to_string())),
            ("service_level", self.service_level.map(|level| level.to_string())),
            ("bidirectional", self.bidirectional.then(|| "true".to_owned())),
            ("gpu", self.gpu.map(|gpu| gpu.to_string())),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

impl TestSpec {
    /// Returns a test of a duration with default options.
    pub fn new(
        kind: TestKind,
        operation: RdmaOperation,
        size: Size,
        queue_pairs: QueuePairs,
        duration: Seconds,
    ) -> Self {
        let options = TrafficOptions::default();
        Self { kind, operation, size, queue_pairs, duration, messages: None, options }
    }

    /// Returns the number of directions in which data is transferred at the same time.
    pub fn directions(&self) -> u8 {
        if self.options.bidirectional { 2 } else { 1 }
    }

    /// Maximum size of the messages of all queue pairs together. perftest locks twice as much memory.
    const MAX_BYTES_IN_FLIGHT: u64 = 1 << 30;

    /// Checks the values in combination.
    ///
    /// # Errors
    /// [`InvalidTestSpec`] if messages of that size for all queue pairs would need too much memory, or if an option does not
    /// apply to the quantity to measure.
    pub fn require_consistent(&self) -> Result<(), InvalidTestSpec> {
        if self.kind == TestKind::Latency && self.options.bidirectional {
            return Err(InvalidTestSpec::new("bidirectional", "a test of bandwidth"));
        }
        if self.kind == TestKind::Bandwidth && self.messages.is_some() {
            return Err(InvalidTestSpec::new("a number of messages", "a test of latency"));
        }
        let bytes = u64::from(self.size.get()) * u64::from(self.queue_pairs.get());
        let value = || format!("{} bytes with {} queue pairs", self.size, self.queue_pairs);
        if bytes <= Self::MAX_BYTES_IN_FLIGHT {
            Ok(())
        } else {
            Err(InvalidTestSpec::new(&value(), "at most 1 GiB in total"))
        }
    }
}

/// The device, port and GID for one end. Values that are `None` are selected automatically.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PortSelector {
    /// The RDMA device, for example `mlx5_0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceName>,
    /// The port of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<PortNumber>,
    /// The index of the GID in the port's table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid_index: Option<u16>,
}

impl PortSelector {
    /// Completes this selector with `other`, unless it specifies a device: a port and a GID index belong to a device.
    #[must_use]
    pub fn or(self, other: &Self) -> Self {
        if self.device.is_some() || other.device.is_none() && other.port.is_none() {
            return self;
        }
        let port = self.port.or(other.port);
        Self { device: other.device.clone(), port, gid_index: self.gid_index.or(other.gid_index) }
    }
}

/// A value is out of its bounds or not of the expected form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{value}: expected {expected}")]
pub struct InvalidTestSpec {
    value: String,
    expected: &'static str,
}

impl InvalidTestSpec {
    pub(crate) fn new(value: &str, expected: &'static str) -> Self {
        Self { value: crate::sanitized_text::plain(value, 64), expected }
    }
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident: $number:ty, $range:expr, $expected:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "u64")]
        pub struct $name($number);

        impl $name {
            /// Returns the number.
            pub fn get(self) -> $number {
                self.0
            }
        }

        impl TryFrom<u64> for $name {
            type Error = InvalidTestSpec;

            fn try_from(value: u64) -> Result<Self, InvalidTestSpec> {
                let invalid = || InvalidTestSpec { value: value.to_string(), expected: $expected };
                let number = <$number>::try_from(value).map_err(|_| invalid())?;
                if $range.contains(&number) { Ok(Self(number)) } else { Err(invalid()) }
            }
        }

        impl FromStr for $name {
            type Err = InvalidTestSpec;

            fn from_str(text: &str) -> Result<Self, InvalidTestSpec> {
                bytes(text).ok_or_else(|| InvalidTestSpec { value: text.into(), expected: $expected })?.try_into()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number!(
    /// A message size in bytes; the maximum is that of perftest's sweep (`--all`).
    Size: u32, (1..=8 << 20), "1 to 8388608 bytes (8M)"
);
number!(
    /// A number of queue pairs.
    QueuePairs: u16, (1..=1024), "1 to 1024 queue pairs"
);
number!(
    /// The duration of a test in seconds.
    Seconds: u16, (1..=3600), "1 to 3600 seconds"
);
number!(
    /// The number of a port of an RDMA device.
    PortNumber: u8, (1..=254), "a port number from 1 to 254"
);

number!(
    /// A number of messages; perftest keeps the time of each.
    Iterations: u32, (5..=5_000_000), "5 to 5000000 messages"
);
number!(
    /// A traffic class of RoCE: the DSCP in the upper six bits, ECN in the lower two.
    TrafficClass: u8, (0..=255), "a traffic class from 0 to 255"
);
number!(
    /// A service level of InfiniBand.
    ServiceLevel: u8, (0..=15), "a service level from 0 to 15"
);
number!(
    /// The index of a GPU of a node.
    GpuIndex: u8, (0..=63), "the index of a GPU, from 0 to 63"
);

impl Iterations {
    /// The least number that perftest accepts.
    pub const LEAST: Self = Self(5);
}

impl Seconds {
    /// The shortest duration.
    pub const SHORTEST: Self = Self(1);
}

impl QueuePairs {
    /// The number of queue pairs of a latency test.
    pub const LATENCY_DEFAULT: Self = Self(1);
}

impl Size {
    /// The default message size of a latency test: 8 bytes.
    pub const LATENCY_SIZE_DEFAULT: Self = Self(8);

    /// The default message size of a bandwidth test: 64 KiB, as of perftest.
    pub const DEFAULT: Self = Self(64 << 10);

    /// Returns the sizes of a sweep: doubled from `first` up to at most `last`.
    pub fn sweep(first: Self, last: Self) -> Vec<Self> {
        let doubled = std::iter::successors(Some(first), |size| u64::from(size.0 * 2).try_into().ok());
        doubled.take_while(|size| *size <= last).collect()
    }
}

/// The name of an RDMA device, for example `mlx5_0`. It consists of letters, digits and `_ - .` and cannot be an option.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct DeviceName(String);

impl DeviceName {
    /// `IB_DEVICE_NAME_MAX`, including the terminating zero.
    const MAX: usize = 64;

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for DeviceName {
    type Error = InvalidTestSpec;

    fn try_from(name: String) -> Result<Self, InvalidTestSpec> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        if begins && name.len() < Self::MAX && name.chars().all(allowed) {
            Ok(Self(name))
        } else {
            let value = name.chars().take(Self::MAX).flat_map(char::escape_default).collect();
            Err(InvalidTestSpec { value, expected: "an RDMA device name, like mlx5_0" })
        }
    }
}

impl FromStr for DeviceName {
    type Err = InvalidTestSpec;

    fn from_str(name: &str) -> Result<Self, InvalidTestSpec> {
        name.to_owned().try_into()
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Parses a number with an optional unit: `65536`, `64K`, `8M`.
fn bytes(text: &str) -> Option<u64> {
    let (digits, unit) = match text.as_bytes().last()? {
        b'K' | b'k' => (&text[..text.len() - 1], 1 << 10),
        b'M' | b'm' => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    let plain = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse::<u64>().ok().filter(|_| plain)?.checked_mul(unit)
}

#[cfg(test)]
mod tests;
