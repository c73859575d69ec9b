//! Metric families and their samples.

use std::{collections::HashMap, sync::Arc};

use crate::{Histogram, LabelSet};

/// The type of a metric family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricType {
    /// Only increases, or restarts at zero. The name of the family ends in `_total`.
    Counter,
    /// Can increase and decrease.
    Gauge,
    /// Observations by their size, added with [`MetricFamily::add_histogram`].
    Histogram,
}

/// The value of a sample. Integers are encoded exactly, without conversion to a float.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SampleValue {
    /// A non-negative integer.
    Integer(u64),
    /// Any other number, including NaN and infinities.
    Float(f64),
}

/// A metric family: name, type, HELP text and samples.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricFamily {
    pub(crate) name: Arc<str>,
    pub(crate) kind: MetricType,
    pub(crate) help: Arc<str>,
    pub(crate) samples: Vec<(LabelSet, SampleValue)>,
    /// What the name of each sample of a histogram ends in; empty for other types.
    pub(crate) suffixes: Vec<&'static str>,
    /// The number of samples in the previous exposition with the same families, as a capacity hint.
    expected: usize,
}

/// The index of a family in an exposition, and in all expositions with the [same families](Exposition::with_same_families).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FamilyId(usize);

/// A set of metric families with distinct names.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Exposition {
    pub(crate) families: Vec<MetricFamily>,
    places: HashMap<Arc<str>, FamilyId>,
}

impl Exposition {
    /// Creates an exposition with the families of another one and the same IDs, but without samples. The capacity for the
    /// samples is reserved.
    pub fn with_same_families(other: &Self) -> Self {
        let empty = |family: &MetricFamily| MetricFamily {
            name: family.name.clone(),
            kind: family.kind,
            help: family.help.clone(),
            samples: Vec::with_capacity(family.expected.max(family.samples.len())),
            suffixes: Vec::new(),
            expected: family.expected,
        };
        Self { families: other.families.iter().map(empty).collect(), places: other.places.clone() }
    }

    /// Returns the ID of the family with this name; creates the family if it does not exist. A family without samples is not
    /// encoded.
    pub fn family_id(&mut self, name: &str, kind: MetricType, help: &str) -> FamilyId {
        if let Some(id) = self.places.get(name) {
            return *id;
        }
        let (name, id): (Arc<str>, _) = (name.into(), FamilyId(self.families.len()));
        self.families.push(MetricFamily {
            name: name.clone(),
            kind,
            help: help.into(),
            samples: Vec::new(),
            suffixes: Vec::new(),
            expected: 0,
        });
        self.places.insert(name, id);
        id
    }

    /// Returns the family with this name; creates it like [`Exposition::family_id`].
    pub fn family(&mut self, name: &str, kind: MetricType, help: &str) -> &mut MetricFamily {
        let FamilyId(at) = self.family_id(name, kind, help);
        &mut self.families[at]
    }

    /// Adds a sample to the family with this ID.
    pub fn add(&mut self, FamilyId(at): FamilyId, labels: LabelSet, value: impl Into<SampleValue>) {
        self.families[at].add(labels, value);
    }

    /// Adds the samples of an exposition with the [same families](Self::with_same_families).
    pub fn append(&mut self, other: Self) {
        for (ours, mut theirs) in self.families.iter_mut().zip(other.families) {
            if ours.samples.is_empty() {
                ours.samples = theirs.samples;
            } else {
                ours.samples.append(&mut theirs.samples);
            }
            ours.suffixes.append(&mut theirs.suffixes);
        }
    }

    /// Stores the numbers of samples of an exposition with the same families. The next [`Self::with_same_families`] reserves
    /// capacity for them.
    pub fn reserve_like(&mut self, like_this: &Self) {
        for (family, last) in self.families.iter_mut().zip(&like_this.families) {
            family.expected = last.samples.len();
        }
    }

    /// Returns the families that have samples, sorted by name.
    pub fn sorted(&self) -> Vec<&MetricFamily> {
        let mut families: Vec<_> = self.families.iter().filter(|family| !family.samples.is_empty()).collect();
        families.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        families
    }

    /// Removes the samples of families whose names are not wanted.
    pub fn retain(&mut self, is_wanted: impl Fn(&str) -> bool) {
        for family in self.families.iter_mut().filter(|family| !is_wanted(&family.name)) {
            (family.samples, family.suffixes) = (Vec::new(), Vec::new());
        }
    }

    /// Adds the families of another exposition. If both have a family, the other's samples replace those of this one.
    pub fn replace(&mut self, other: Self) {
        for family in other.families {
            let ours = self.family(&family.name, family.kind, &family.help);
            (ours.samples, ours.suffixes) = (family.samples, family.suffixes);
        }
    }
}

impl MetricFamily {
    /// Adds a sample. The caller must not add two samples with the same labels.
    pub fn add(&mut self, labels: LabelSet, value: impl Into<SampleValue>) {
        self.samples.push((labels, value.into()));
    }

    /// Adds the samples of a histogram to a family of the type [`MetricType::Histogram`].
    pub fn add_histogram(&mut self, labels: &LabelSet, histogram: &Histogram) {
        for (bound, count) in histogram.cumulative() {
            let bound = if bound.is_infinite() { "+Inf".to_owned() } else { bound.to_string() };
            self.suffixes.push("_bucket");
            self.add(labels.and("le", &bound), count);
        }
        self.suffixes.extend(["_sum", "_count"]);
        self.add(labels.clone(), histogram.sum());
        self.add(labels.clone(), histogram.count());
    }

    /// Returns the name, such as `rdma_port_up`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the type.
    pub fn kind(&self) -> MetricType {
        self.kind
    }

    /// Returns the samples in the order in which they were added.
    pub fn samples(&self) -> &[(LabelSet, SampleValue)] {
        &self.samples
    }
}

impl From<u64> for SampleValue {
    fn from(value: u64) -> Self {
        Self::Integer(value)
    }
}

impl From<f64> for SampleValue {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<bool> for SampleValue {
    fn from(value: bool) -> Self {
        Self::Integer(value.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn family_ids_are_equal_in_expositions_with_the_same_families() {
        let mut first = Exposition::default();
        let (a, b) =
            (first.family_id("a", MetricType::Gauge, ""), first.family_id("b", MetricType::Gauge, ""));
        assert_ne!(a, b);
        assert_eq!(first.family_id("a", MetricType::Gauge, "other"), a);
        first.add(a, LabelSet::of([]), 1);
        let mut second = Exposition::with_same_families(&first);
        assert!(second.sorted().is_empty());
        second.add(b, LabelSet::of([]), 2);
        assert_eq!(second.sorted()[0].name(), "b");
        assert_eq!(second.family_id("b", MetricType::Gauge, ""), b);
    }

    #[test]
    fn append_adds_the_samples_of_the_same_families() {
        let mut template = Exposition::default();
        let (a, b) =
            (template.family_id("a", MetricType::Gauge, ""), template.family_id("b", MetricType::Gauge, ""));
        let (mut first, mut second) =
            (Exposition::with_same_families(&template), Exposition::with_same_families(&template));
        first.add(a, LabelSet::of([]), 1);
        second.add(a, LabelSet::of([]), 2);
        second.add(b, LabelSet::of([]), 3);
        first.append(second);
        let counts: Vec<_> = first.sorted().iter().map(|family| family.samples().len()).collect();
        assert_eq!(counts, [2, 1]);
    }

    #[test]
    fn samples_of_other_families_are_removed() {
        let mut some = Exposition::default();
        for name in ["a", "b", "c"] {
            some.family(name, MetricType::Gauge, "").add(LabelSet::of([]), 1);
        }
        some.retain(|name| name != "b");
        assert_eq!(some.sorted().iter().map(|family| family.name()).collect::<Vec<_>>(), ["a", "c"]);
    }

    #[test]
    fn replace_overwrites_the_samples_of_families_in_both() {
        let (mut ours, mut theirs) = (Exposition::default(), Exposition::default());
        ours.family("a", MetricType::Gauge, "").add(LabelSet::of([]), 1);
        ours.family("b", MetricType::Gauge, "").add(LabelSet::of([]), 1);
        theirs.family("c", MetricType::Gauge, "").add(LabelSet::of([]), 3);
        theirs.family("a", MetricType::Gauge, "").add(LabelSet::of([]), 3);
        ours.replace(theirs);
        let found: Vec<_> = ours
            .sorted()
            .iter()
            .map(|f| (f.name().to_owned(), f.samples()[0].1, f.samples().len()))
            .collect();
        let three = SampleValue::Integer(3);
        assert_eq!(
            found,
            [("a".into(), three, 1), ("b".into(), SampleValue::Integer(1), 1), ("c".into(), three, 1)]
        );
    }
}
