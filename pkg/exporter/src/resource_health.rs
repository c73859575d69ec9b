//! The health of the devices that silkraild offers to the kubelet.

use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

/// The health of the devices of a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceHealth {
    /// The name of the resource: `rdma/hca_shared_devices_a`.
    pub resource: String,
    /// The number of devices that can be allocated, or shared.
    pub healthy: usize,
    /// The other devices.
    pub unhealthy: Vec<UnhealthyDevice>,
}

/// A device that cannot be allocated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnhealthyDevice {
    /// Its ID, such as `0000:af:00.2`.
    pub id: String,
    /// The reason, as the value of a label.
    pub reason: String,
}

/// The health of all resources, which the device plugin sets and the exporter reads. Empty without a device plugin.
#[derive(Debug, Clone, Default)]
pub struct ResourceHealthStore(Arc<Mutex<Vec<ResourceHealth>>>);

impl ResourceHealthStore {
    /// Replaces the health of all resources.
    pub fn set(&self, resources: Vec<ResourceHealth>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = resources;
    }

    /// Returns the health of all resources.
    pub fn get(&self) -> Vec<ResourceHealth> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
