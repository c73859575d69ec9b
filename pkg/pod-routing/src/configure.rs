//! Configuring and verifying a pod's link.

use cni::{AddRequest, AddResult};
use journal::Journal;
use plugin_runtime::{Error, PodNetns, attachment::NodeChange, interface};
use rtnl::Link;

use crate::{PodRouting, RailRules, arp, default_route, rules, table};

impl PodRouting {
    /// Adds the result's addresses and routes to the pod's link and sets it up, with the rules and the routes of a rail, and
    /// the default route. The routes that were not added are removed from the result.
    ///
    /// # Errors
    /// If the rail's table or rules are in use, there is no gateway for the default route, or the kernel refuses a request.
    pub fn configure<C: NodeChange + From<RailRules>>(
        &self,
        journal: &mut Journal<C>,
        request: &AddRequest<'_>,
        pod: &PodNetns,
        link: &Link,
        result: &mut AddResult,
    ) -> Result<(), Error> {
        if self.default_route {
            default_route::take_from(result);
        }
        if let Some(rail) = &self.rail {
            let table = rail.table_of(&link.name);
            table::require_free(table, pod)?;
            rules::require_absent(rail, pod, link, result)?;
            arp::set(rail, pod, &link.name)?;
            table::assign(table, result);
        }
        journal.time("addresses", || interface::configure(pod, link, result, self.conflict_detection))?;
        if let Some(rail) = &self.rail {
            table::fill(rail.table_of(&link.name), pod, link, result)?;
            let rules = RailRules::of(rail, request, pod, result);
            journal.record_and_apply(rules.clone().into(), |_| rules.apply(pod))?;
        }
        if self.default_route {
            default_route::set(pod, link, result)?;
        }
        Ok(())
    }

    /// Checks that the pod's link has the result's addresses and routes, and what [`PodRouting::configure`] adds to them. The
    /// rules are checked by [`RailRules::verify`].
    ///
    /// # Errors
    /// The first difference.
    pub fn verify(&self, pod: &PodNetns, link: &Link, result: &AddResult) -> Result<(), Error> {
        let mut result = result.clone();
        if self.default_route {
            default_route::verify(pod, link, &result)?;
            default_route::take_from(&mut result);
        }
        if let Some(rail) = &self.rail {
            // Results before CNI 1.1.0 do not contain the table.
            let table = rail.table_of(&link.name);
            table::assign(table, &mut result);
            table::verify(table, pod, link, &result)?;
            arp::verify(rail, pod, &link.name)?;
        }
        interface::verify(pod, link, &result)
    }
}
