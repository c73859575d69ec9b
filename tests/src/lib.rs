//! Tests that need more than one crate. They are in `tests/`:
//!
//! | directory | what | needs |
//! |---|---|---|
//! | `protocol` | environment and standard input in, standard output and exit code out | the built `silkrail-cni` |
//! | `netns` | the built plugins in namespaces of the running kernel | root |
//! | `conf` | every file that users copy is read by what will read it | the built `silkrail-cni` |
//!
//! Run them with `hack/test`.
