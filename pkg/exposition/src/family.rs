//! Families and their samples.

use std::{borrow::Cow, collections::BTreeMap};

use crate::Labels;

/// What the samples of a family are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only ever grows, until it begins anew. The family's name ends in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
}

/// The value of a sample. An integer is sent digit by digit, however large.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// A whole number.
    Integer(u64),
    /// Any other.
    Float(f64),
}

/// Samples of one name.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    pub(crate) kind: Kind,
    pub(crate) help: Cow<'static, str>,
    pub(crate) samples: Vec<(Labels, Value)>,
}

/// Families by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Exposition {
    pub(crate) families: BTreeMap<String, Family>,
}

impl Exposition {
    /// The family of that name, which is made if it is not there yet. One that never gets a sample is not sent.
    pub fn family(&mut self, name: &str, kind: Kind, help: impl Into<Cow<'static, str>>) -> &mut Family {
        // Not `entry`: it would make a `String` for every look.
        if !self.families.contains_key(name) {
            self.families.insert(name.to_owned(), Family { kind, help: help.into(), samples: Vec::new() });
        }
        #[expect(clippy::expect_used, reason = "it was put there by the lines above")]
        self.families.get_mut(name).expect("is there")
    }

    /// As [`Exposition::family`], with a help text that is only taken if the family is new.
    pub fn family_with(&mut self, name: &str, kind: Kind, help: &str) -> &mut Family {
        if self.families.contains_key(name) {
            self.family(name, kind, "")
        } else {
            self.family(name, kind, help.to_owned())
        }
    }

    /// The names of the families that have samples, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.families.iter().filter(|(_, family)| !family.samples.is_empty()).map(|(name, _)| name.as_str())
    }

    /// Adds what another has. Of a family in both, the other's samples take the place of this one's.
    pub fn replace(&mut self, other: Self) {
        self.families.extend(other.families);
    }

    /// Adds what another has. Of a family in both, the kind and help of this one count.
    pub fn merge(&mut self, other: Self) {
        for (name, family) in other.families {
            self.family(&name, family.kind, family.help).samples.extend(family.samples);
        }
    }
}

impl Family {
    /// Adds a sample. The caller sees to it that no two have the same labels.
    pub fn add(&mut self, labels: Labels, value: impl Into<Value>) {
        self.samples.push((labels, value.into()));
    }

    /// The samples, in the order in which they were added.
    pub fn samples(&self) -> &[(Labels, Value)] {
        &self.samples
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Integer(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Integer(value.into())
    }
}
