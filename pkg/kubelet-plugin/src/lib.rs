//! Device plugins of the kubelet.
//!
//! [`serve()`] serves one resource on a socket in the kubelet's directory, and registers it. A kubelet that starts deletes all
//! sockets in its directory and knows no resources. So the directory is watched by inotify, and the resource is served and
//! registered again as soon as the kubelet listens.

#![forbid(unsafe_code)]

mod directory_watch;
mod local_authority;
mod registration;
mod resource;
mod serve;
mod service;
mod watchers;

pub use directory_watch::DirectoryWatch;
pub use registration::RegistrationError;
pub use resource::{Device, DeviceList, Resource, ResourceError};
pub use serve::{ServeError, serve};
