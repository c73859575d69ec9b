//! The differences of several cases.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Case, Difference, Implementation, difference::differences, page::Section, place::run_on_a_new_node,
};

/// The differences of the cases of one section of the page, each with the names of its cases.
#[derive(Debug, Default)]
pub struct Comparison(BTreeMap<Difference, BTreeSet<String>>);

impl Comparison {
    /// Runs each case with the Go plugin and with Silkrail's.
    ///
    /// # Panics
    /// If Debian's plugins are not installed.
    pub fn of(cases: &[Case]) -> Self {
        let mut all = Self::default();
        for case in cases {
            let [go, silkrail] = [Implementation::Go, Implementation::Silkrail]
                .map(|implementation| run_on_a_new_node(case, implementation));
            for difference in differences(&go, &silkrail) {
                all.0.entry(difference).or_default().insert(case.name.to_owned());
            }
        }
        all
    }

    /// Asserts that these are the differences of a section of the page, besides those of its section about all links of
    /// the plugin.
    ///
    /// # Panics
    /// With the rows to add and those to remove.
    pub fn assert_on_page(mut self, plugin: &str, section: &str) {
        let every_link = Section::read(&format!("{plugin}: every link"));
        self.0.retain(|difference, _| !every_link.contains(difference));
        Section::read(&format!("{plugin}: {section}")).assert_is(&self.0);
    }

    /// Asserts that the section about all links of the plugin has only differences that these cases have.
    ///
    /// # Panics
    /// With the rows to remove.
    pub fn assert_has_every_link(&self, plugin: &str) {
        Section::read(&format!("{plugin}: every link")).assert_within(&self.0);
    }
}
