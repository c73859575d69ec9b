//! Families and their samples.

use std::{collections::HashMap, sync::Arc};

use crate::LabelSet;

/// What the samples of a family are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricType {
    /// Only ever grows, until it begins anew. The family's name ends in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
}

/// The value of a sample. An integer is sent digit by digit, however large.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SampleValue {
    /// A whole number.
    Integer(u64),
    /// Any other.
    Float(f64),
}

/// Samples of one name.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricFamily {
    pub(crate) name: Arc<str>,
    pub(crate) kind: MetricType,
    pub(crate) help: Arc<str>,
    pub(crate) samples: Vec<(LabelSet, SampleValue)>,
    /// How many samples there were in the last exposition like this one.
    expected: usize,
}

/// The place of a family in an exposition and in all that are made [like](Exposition::with_same_families) it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FamilyId(usize);

/// Families by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Exposition {
    pub(crate) families: Vec<MetricFamily>,
    places: HashMap<Arc<str>, FamilyId>,
}

impl Exposition {
    /// An exposition with the families of another, at their places, and without samples: but with room for as many.
    pub fn with_same_families(other: &Self) -> Self {
        let empty = |family: &MetricFamily| MetricFamily {
            name: family.name.clone(),
            kind: family.kind,
            help: family.help.clone(),
            samples: Vec::with_capacity(family.expected.max(family.samples.len())),
            expected: family.expected,
        };
        Self { families: other.families.iter().map(empty).collect(), places: other.places.clone() }
    }

    /// The place of the family of that name, which is made if it is not there yet. One that never gets a sample is not
    /// sent.
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
            expected: 0,
        });
        self.places.insert(name, id);
        id
    }

    /// The family of that name, as [`Exposition::family_id`] finds or makes it.
    pub fn family(&mut self, name: &str, kind: MetricType, help: &str) -> &mut MetricFamily {
        let FamilyId(at) = self.family_id(name, kind, help);
        &mut self.families[at]
    }

    /// Adds a sample to the family at a place.
    pub fn add(&mut self, FamilyId(at): FamilyId, labels: LabelSet, value: impl Into<SampleValue>) {
        self.families[at].add(labels, value);
    }

    /// Adds the samples of another that was made [like](Self::with_same_families) the same one.
    pub fn append(&mut self, other: Self) {
        for (ours, mut theirs) in self.families.iter_mut().zip(other.families) {
            if ours.samples.is_empty() {
                ours.samples = theirs.samples;
            } else {
                ours.samples.append(&mut theirs.samples);
            }
        }
    }

    /// Takes down how many samples an exposition like this one got, for the next.
    pub fn reserve_like(&mut self, like_this: &Self) {
        for (family, last) in self.families.iter_mut().zip(&like_this.families) {
            family.expected = last.samples.len();
        }
    }

    /// The families that have samples, by name.
    pub fn sorted(&self) -> Vec<&MetricFamily> {
        let mut families: Vec<_> = self.families.iter().filter(|family| !family.samples.is_empty()).collect();
        families.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        families
    }

    /// Adds what another has. Of a family in both, the other's samples take the place of this one's.
    pub fn replace(&mut self, other: Self) {
        for family in other.families {
            self.family(&family.name, family.kind, &family.help).samples = family.samples;
        }
    }
}

impl MetricFamily {
    /// Adds a sample. The caller sees to it that no two have the same labels.
    pub fn add(&mut self, labels: LabelSet, value: impl Into<SampleValue>) {
        self.samples.push((labels, value.into()));
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What its samples are.
    pub fn kind(&self) -> MetricType {
        self.kind
    }

    /// The samples, in the order in which they were added.
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
    fn places_are_the_same_in_an_exposition_like_it() {
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
    fn an_exposition_adopts_the_samples_of_its_like() {
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
    fn the_samples_of_another_take_the_place_of_those_that_were_there() {
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
