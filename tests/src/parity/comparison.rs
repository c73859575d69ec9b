//! The differences of several cases.

use std::{
    collections::{BTreeMap, BTreeSet},
    thread,
};

use testkit::Share;

use super::{
    Case, Difference, Implementation, difference::differences, page::Section, place::run_on_a_new_node,
};

/// How many cases run at the same time. Most of a case is waiting: the kernel removes its namespaces.
const THREADS: usize = 4;

/// The differences of the cases of one section of the page, each with the names of its cases.
#[derive(Debug, Default)]
pub struct Comparison {
    found: BTreeMap<Difference, BTreeSet<String>>,
    /// The cases of the section that did not run.
    left_out: BTreeSet<&'static str>,
}

impl Comparison {
    /// Runs a share of a section's cases.
    ///
    /// # Panics
    /// If Debian's plugins are not installed.
    pub fn of_share(share: Share, section: &str, cases: &[Case]) -> Self {
        let chosen: BTreeSet<_> = share.of_list(section, cases.len()).collect();
        let (run, left_out): (Vec<_>, Vec<_>) =
            cases.iter().enumerate().partition(|(index, _)| chosen.contains(index));
        let run: Vec<_> = run.into_iter().map(|(_, case)| case.clone()).collect();
        Self { left_out: left_out.into_iter().map(|(_, case)| case.name).collect(), ..Self::of(&run) }
    }

    /// Runs each case with the Go plugin and with Silkrail's.
    ///
    /// # Panics
    /// If Debian's plugins are not installed.
    pub fn of(cases: &[Case]) -> Self {
        let found = thread::scope(|scope| {
            let chunks = cases.chunks(cases.len().div_ceil(THREADS));
            let threads: Vec<_> = chunks.map(|chunk| scope.spawn(|| differences_of(chunk))).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        let mut all = Self::default();
        for (difference, case) in found {
            all.found.entry(difference).or_default().insert(case);
        }
        all
    }

    /// Asserts that these are the differences that a section of the page has, except of cases that did not run, besides
    /// those of its section about all links of the plugin.
    ///
    /// # Panics
    /// With the rows to add and those to remove.
    pub fn assert_on_page(mut self, plugin: &str, section: &str) {
        let every_link = Section::read(&format!("{plugin}: every link"));
        self.found.retain(|difference, _| !every_link.contains(difference));
        Section::read(&format!("{plugin}: {section}")).without(&self.left_out).assert_is(&self.found);
    }

    /// Asserts that the section about all links of the plugin has only differences that these cases have.
    ///
    /// # Panics
    /// With the rows to remove.
    pub fn assert_has_every_link(&self, plugin: &str) {
        Section::read(&format!("{plugin}: every link")).assert_within(&self.found);
    }
}

/// Returns the differences of cases, each with the name of its case.
fn differences_of(cases: &[Case]) -> Vec<(Difference, String)> {
    let of_case = |case: &Case| {
        let [go, silkrail] = [Implementation::Go, Implementation::Silkrail]
            .map(|implementation| run_on_a_new_node(case, implementation));
        differences(&go, &silkrail).into_iter().map(|difference| (difference, case.name.to_owned()))
    };
    cases.iter().flat_map(of_case).collect()
}
