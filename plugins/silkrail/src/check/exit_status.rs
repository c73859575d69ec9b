//! The exit status of the commands that run tests.

/// The exit status of the commands that run tests.
pub(super) const EXIT_STATUS: &str = "\
Exit status:
  0   done; the threshold was reached, or there is none
  1   an error: no result
  2   wrong usage
  4   no RDMA device on this node
  6   below the threshold";
