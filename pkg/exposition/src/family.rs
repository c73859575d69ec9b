//! Families and their samples.

use std::{collections::HashMap, sync::Arc};

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
    pub(crate) name: Arc<str>,
    pub(crate) kind: Kind,
    pub(crate) help: Arc<str>,
    pub(crate) samples: Vec<(Labels, Value)>,
    /// How many samples there were in the last exposition like this one.
    expected: usize,
}

/// The place of a family in an exposition and in all that are made [like](Exposition::like) it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FamilyId(usize);

/// Families by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Exposition {
    pub(crate) families: Vec<Family>,
    places: HashMap<Arc<str>, FamilyId>,
}

impl Exposition {
    /// An exposition with the families of another, at their places, and without samples: but with room for as many.
    pub fn like(other: &Self) -> Self {
        let empty = |family: &Family| Family {
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
    pub fn place(&mut self, name: &str, kind: Kind, help: &str) -> FamilyId {
        if let Some(id) = self.places.get(name) {
            return *id;
        }
        let (name, id): (Arc<str>, _) = (name.into(), FamilyId(self.families.len()));
        self.families.push(Family {
            name: name.clone(),
            kind,
            help: help.into(),
            samples: Vec::new(),
            expected: 0,
        });
        self.places.insert(name, id);
        id
    }

    /// The family of that name, as [`Exposition::place`] finds or makes it.
    pub fn family(&mut self, name: &str, kind: Kind, help: &str) -> &mut Family {
        let FamilyId(at) = self.place(name, kind, help);
        &mut self.families[at]
    }

    /// Adds a sample to the family at a place.
    pub fn add(&mut self, FamilyId(at): FamilyId, labels: Labels, value: impl Into<Value>) {
        self.families[at].add(labels, value);
    }

    /// Adds the samples of another that was made [like](Self::like) the same one.
    pub fn adopt(&mut self, other: Self) {
        for (ours, mut theirs) in self.families.iter_mut().zip(other.families) {
            if ours.samples.is_empty() {
                ours.samples = theirs.samples;
            } else {
                ours.samples.append(&mut theirs.samples);
            }
        }
    }

    /// Takes down how many samples an exposition like this one got, for the next.
    pub fn expect(&mut self, like_this: &Self) {
        for (family, last) in self.families.iter_mut().zip(&like_this.families) {
            family.expected = last.samples.len();
        }
    }

    /// The families that have samples, by name.
    pub fn sorted(&self) -> Vec<&Family> {
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

impl Family {
    /// Adds a sample. The caller sees to it that no two have the same labels.
    pub fn add(&mut self, labels: Labels, value: impl Into<Value>) {
        self.samples.push((labels, value.into()));
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What its samples are.
    pub fn kind(&self) -> Kind {
        self.kind
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_the_same_in_an_exposition_like_it() {
        let mut first = Exposition::default();
        let (a, b) = (first.place("a", Kind::Gauge, ""), first.place("b", Kind::Gauge, ""));
        assert_ne!(a, b);
        assert_eq!(first.place("a", Kind::Gauge, "other"), a);
        first.add(a, Labels::of([]), 1);
        let mut second = Exposition::like(&first);
        assert!(second.sorted().is_empty());
        second.add(b, Labels::of([]), 2);
        assert_eq!(second.sorted()[0].name(), "b");
        assert_eq!(second.place("b", Kind::Gauge, ""), b);
    }

    #[test]
    fn an_exposition_adopts_the_samples_of_its_like() {
        let mut template = Exposition::default();
        let (a, b) = (template.place("a", Kind::Gauge, ""), template.place("b", Kind::Gauge, ""));
        let (mut first, mut second) = (Exposition::like(&template), Exposition::like(&template));
        first.add(a, Labels::of([]), 1);
        second.add(a, Labels::of([]), 2);
        second.add(b, Labels::of([]), 3);
        first.adopt(second);
        let counts: Vec<_> = first.sorted().iter().map(|family| family.samples().len()).collect();
        assert_eq!(counts, [2, 1]);
    }

    #[test]
    fn the_samples_of_another_take_the_place_of_those_that_were_there() {
        let (mut ours, mut theirs) = (Exposition::default(), Exposition::default());
        ours.family("a", Kind::Gauge, "").add(Labels::of([]), 1);
        ours.family("b", Kind::Gauge, "").add(Labels::of([]), 1);
        theirs.family("c", Kind::Gauge, "").add(Labels::of([]), 3);
        theirs.family("a", Kind::Gauge, "").add(Labels::of([]), 3);
        ours.replace(theirs);
        let found: Vec<_> = ours
            .sorted()
            .iter()
            .map(|f| (f.name().to_owned(), f.samples()[0].1, f.samples().len()))
            .collect();
        let three = Value::Integer(3);
        assert_eq!(
            found,
            [("a".into(), three, 1), ("b".into(), Value::Integer(1), 1), ("c".into(), three, 1)]
        );
    }
}
