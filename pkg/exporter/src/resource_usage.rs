//! The users of a device, and their objects.
//!
//! The kernel reports the *thread* that created an object while that thread exists. A worker thread of a library can end
//! long before the queue pair that it created. Then the owner is found through related objects: a queue pair belongs to a
//! protection domain, which belongs to a user context, in which an existing thread created another object. A context whose
//! threads have all ended keeps its owner, because its number is not reused soon.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use kubepods::{Processes, membership};
use rdma::resource::{QpType, QueuePair, ResourceOwner};

use crate::{CollectError, Collector, DeviceReading, DeviceResources, PodInfo, pods::PodDirectory};

/// The owner of an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ResourceHolder {
    /// A pod.
    Pod(Arc<PodInfo>),
    /// A process of the node outside pods.
    Node,
    /// The owner is unknown.
    Unknown,
}

/// The objects of one owner on a device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceShare {
    /// Number of objects by type: `qp`, `cq`, `mr`, `pd`, `ctx`, `srq`, `cm_id`.
    pub counts: BTreeMap<&'static str, u64>,
    /// Number of queue pairs by type and state, such as `("RC", "RTS")`.
    pub queue_pairs: BTreeMap<(String, String), u64>,
    /// Size of the memory regions in bytes; the memory is pinned.
    pub memory: u64,
}

/// The users of a device. Objects of the kernel are not included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceUsage {
    /// The owners and their objects.
    pub shares: BTreeMap<ResourceHolder, ResourceShare>,
    /// Whether the kernel has connections (NFS, NVMe over Fabrics, IP over InfiniBand), or could have.
    pub kernel_connects: bool,
}

/// The owners of user contexts in former collections, by device index and context number.
#[derive(Debug, Default)]
pub(crate) struct ContextOwners {
    contexts: HashMap<(u32, u32), ResourceHolder>,
}

impl ResourceShare {
    /// Adds the objects of another share.
    pub(crate) fn add(&mut self, other: &Self) {
        other.counts.iter().for_each(|(kind, count)| *self.counts.entry(kind).or_default() += count);
        for (kind, count) in &other.queue_pairs {
            *self.queue_pairs.entry(kind.clone()).or_default() += count;
        }
        self.memory += other.memory;
    }
}

impl DeviceUsage {
    /// Returns the pod that all traffic of the device belongs to: the only owner of queue pairs, or if there are none, the only
    /// one that has opened the device. `None` if the kernel has connections.
    pub fn sole_user(&self) -> Option<&Arc<PodInfo>> {
        if self.kernel_connects {
            return None;
        }
        let has =
            |what: &'static str| self.shares.iter().filter(move |(_, share)| share.counts.contains_key(what));
        let what = if has("qp").next().is_some() { "qp" } else { "ctx" };
        let mut users = has(what);
        match (users.next(), users.next()) {
            (Some((ResourceHolder::Pod(pod), _)), None) => Some(pod),
            _ => None,
        }
    }
}

impl ContextOwners {
    /// Removes devices that are gone.
    pub(crate) fn forget(&mut self, is_there: impl Fn(u32) -> bool) {
        self.contexts.retain(|(device, _), _| is_there(*device));
    }
}

/// Finds the owners of objects in one collection.
pub(crate) struct HolderResolver<'a> {
    processes: &'a Processes,
    pods: &'a PodDirectory,
    context_owners: &'a mut ContextOwners,
    threads: HashMap<u32, Option<ResourceHolder>>,
    /// The `/proc/<pid>/cgroup` of a process of each pod, for [`kubepods::PodCgroup::find`].
    pub(crate) cgroups: BTreeMap<Arc<PodInfo>, String>,
    errors: &'a mut Vec<CollectError>,
}

impl<'a> HolderResolver<'a> {
    pub(crate) fn new(
        processes: &'a Processes,
        pods: &'a PodDirectory,
        context_owners: &'a mut ContextOwners,
        errors: &'a mut Vec<CollectError>,
    ) -> Self {
        Self { processes, pods, context_owners, threads: HashMap::new(), cgroups: BTreeMap::new(), errors }
    }

    /// Returns the users of a device; `None` if its objects were not read.
    pub(crate) fn usage(&mut self, reading: &DeviceReading) -> Option<DeviceUsage> {
        let objects = reading.objects.as_ref()?;
        let relations = match (&reading.pod, reading.on_node) {
            // All processes in the pod's network namespace belong to the pod.
            (Some(pod), false) => ContextRelations::of_one_holder(ResourceHolder::Pod(pod.clone())),
            _ => self.relations(reading.device.index, objects),
        };
        Some(self.count_resources(objects, &relations))
    }

    /// Returns the owner of each queue pair of a device by its number, except for queue pairs of the kernel.
    pub(crate) fn of_queue_pairs(
        &mut self,
        device: u32,
        objects: &DeviceResources,
    ) -> HashMap<u32, ResourceHolder> {
        let relations = self.relations(device, objects);
        let mut holders = HashMap::new();
        for pair in &objects.queue_pairs {
            let context = relations.context_of(pair.protection_domain);
            let holder = self.holder(&pair.owner, relations.holder(context));
            holders.extend(holder.map(|holder| (pair.number, holder)));
        }
        holders
    }

    /// Finds the owner of each user context by any of its objects whose creator still exists.
    fn relations(&mut self, device: u32, objects: &DeviceResources) -> ContextRelations {
        let mut contexts: HashMap<u32, ResourceHolder> = HashMap::new();
        let mut learn = |context: Option<u32>, holder: Option<ResourceHolder>| {
            if let Some((context, holder)) = context.zip(holder) {
                contexts.entry(context).or_insert(holder);
            }
        };
        for context in &objects.contexts {
            learn(Some(context.number), self.maker(&context.owner));
        }
        for domain in &objects.protection_domains {
            learn(domain.context, self.maker(&domain.owner));
        }
        for queue in &objects.completion_queues {
            learn(queue.context, self.maker(&queue.owner));
        }
        let of_domain: HashMap<u32, u32> =
            objects.protection_domains.iter().filter_map(|pd| Some((pd.number, pd.context?))).collect();
        for region in &objects.memory_regions {
            let context = region.protection_domain.and_then(|pd| of_domain.get(&pd).copied());
            learn(context, self.maker(&region.owner));
        }
        for pair in objects.queue_pairs.chunk_by(are_alike).map(|pairs| &pairs[0]) {
            let context = pair.protection_domain.and_then(|pd| of_domain.get(&pd).copied());
            learn(context, self.maker(&pair.owner));
        }
        self.cache_contexts(device, objects, &mut contexts);
        ContextRelations { everything: None, contexts, of_domain }
    }

    /// Adds the former owners of contexts whose creators have ended, and forgets contexts that are gone.
    fn cache_contexts(
        &mut self,
        device: u32,
        objects: &DeviceResources,
        contexts: &mut HashMap<u32, ResourceHolder>,
    ) {
        let present = |context: u32| objects.contexts.iter().any(|c| c.number == context);
        self.context_owners.contexts.retain(|(of, context), _| *of != device || present(*context));
        for (key, holder) in &self.context_owners.contexts {
            if key.0 == device {
                contexts.entry(key.1).or_insert_with(|| holder.clone());
            }
        }
        self.context_owners
            .contexts
            .extend(contexts.iter().map(|(context, holder)| ((device, *context), holder.clone())));
    }

    /// Returns the owner of the thread that created an object; `None` if it is unknown.
    pub(crate) fn maker(&mut self, owner: &ResourceOwner) -> Option<ResourceHolder> {
        let ResourceOwner::Process(thread) = owner else { return None };
        if let Some(known) = self.threads.get(thread) {
            return known.clone();
        }
        let holder = match self.processes.cgroup(*thread) {
            Ok(text) => text.map(|text| self.of_cgroup(text)),
            Err(error) => {
                self.errors.push(CollectError::new(Collector::Resources, &error));
                None
            }
        };
        self.threads.insert(*thread, holder.clone());
        holder
    }

    fn of_cgroup(&mut self, text: String) -> ResourceHolder {
        let Some(member) = membership(&text) else { return ResourceHolder::Node };
        let pod = self.pods.of(&member.pod);
        self.cgroups.insert(pod.clone(), text);
        ResourceHolder::Pod(pod)
    }

    fn count_resources(&mut self, objects: &DeviceResources, relations: &ContextRelations) -> DeviceUsage {
        // Queue pairs that were not listed could belong to the kernel.
        let mut usage =
            DeviceUsage { kernel_connects: objects.queue_pairs_left_out, ..DeviceUsage::default() };
        for pairs in objects.queue_pairs.chunk_by(are_alike) {
            let pair = &pairs[0];
            // Each port has a management queue pair of the kernel.
            let manages = matches!(pair.kind, QpType::Smi | QpType::Gsi);
            usage.kernel_connects |= matches!(pair.owner, ResourceOwner::Kernel(_)) && !manages;
            let context = relations.context_of(pair.protection_domain);
            let number = pairs.len() as u64;
            let by_relation = relations.holder(context);
            if let Some(share) = self.count_objects(&mut usage, "qp", &pair.owner, by_relation, number) {
                *share.queue_pairs.entry((pair.transport(), pair.state.to_string())).or_default() += number;
            }
        }
        for queue in &objects.completion_queues {
            self.count_objects(&mut usage, "cq", &queue.owner, relations.holder(queue.context), 1);
        }
        for region in &objects.memory_regions {
            let context = relations.context_of(region.protection_domain);
            if let Some(share) =
                self.count_objects(&mut usage, "mr", &region.owner, relations.holder(context), 1)
            {
                share.memory += region.length.unwrap_or(0);
            }
        }
        for domain in &objects.protection_domains {
            self.count_objects(&mut usage, "pd", &domain.owner, relations.holder(domain.context), 1);
        }
        for context in &objects.contexts {
            self.count_objects(&mut usage, "ctx", &context.owner, relations.holder(Some(context.number)), 1);
        }
        for queue in &objects.shared_receive_queues {
            let context = relations.context_of(queue.protection_domain);
            self.count_objects(&mut usage, "srq", &queue.owner, relations.holder(context), 1);
        }
        for id in &objects.cm_ids {
            self.count_objects(&mut usage, "cm_id", &id.owner, relations.everything.as_ref(), 1);
        }
        usage
    }

    /// Counts a number of objects for their owner; `None` if they belong to the kernel.
    fn count_objects<'u>(
        &mut self,
        usage: &'u mut DeviceUsage,
        kind: &'static str,
        owner: &ResourceOwner,
        by_relation: Option<&ResourceHolder>,
        number: u64,
    ) -> Option<&'u mut ResourceShare> {
        let share = usage.shares.entry(self.holder(owner, by_relation)?).or_default();
        *share.counts.entry(kind).or_default() += number;
        Some(share)
    }

    /// Returns the owner of an object; `None` if it belongs to the kernel.
    fn holder(
        &mut self,
        owner: &ResourceOwner,
        by_relation: Option<&ResourceHolder>,
    ) -> Option<ResourceHolder> {
        match (owner, by_relation) {
            (ResourceOwner::Kernel(_), _) => None,
            (_, Some(holder)) => Some(holder.clone()),
            (_, None) => Some(self.maker(owner).unwrap_or(ResourceHolder::Unknown)),
        }
    }
}

/// Whether two queue pairs count as the same: most of a process are alike, and the kernel lists them one after the other.
fn are_alike(one: &QueuePair, other: &QueuePair) -> bool {
    let of = |pair: &QueuePair| (pair.kind, pair.state, pair.protection_domain);
    of(one) == of(other) && one.owner == other.owner && one.subtype == other.subtype
}

/// The owners of a device's user contexts, and the context of each protection domain.
#[derive(Debug, Default)]
struct ContextRelations {
    /// The owner of all objects, for a device in a pod's network namespace.
    everything: Option<ResourceHolder>,
    contexts: HashMap<u32, ResourceHolder>,
    of_domain: HashMap<u32, u32>,
}

impl ContextRelations {
    fn of_one_holder(holder: ResourceHolder) -> Self {
        Self { everything: Some(holder), ..Self::default() }
    }

    fn context_of(&self, domain: Option<u32>) -> Option<u32> {
        self.of_domain.get(&domain?).copied()
    }

    fn holder(&self, context: Option<u32>) -> Option<&ResourceHolder> {
        self.everything.as_ref().or_else(|| self.contexts.get(&context?))
    }
}

#[cfg(test)]
mod tests;
