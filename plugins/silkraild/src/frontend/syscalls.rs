//! The system calls that the frontend needs. The others are refused: root can do much even without capabilities, and more than
//! a list of what is dangerous would have.

use std::{collections::BTreeMap, env::consts::ARCH, process};

use nix::libc::{self, c_int, c_long};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen::Dword, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule,
};

/// The kernel takes no filter, or there is none for this kind of machine.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SeccompError {
    #[error("make a filter of system calls: {0}")]
    Filter(#[from] BackendError),
    #[error("set a filter of system calls: {0}")]
    Set(#[from] seccompiler::Error),
}

/// Whatever their arguments are: memory, time, threads, and descriptors that are open.
const ALLOWED: &[c_long] = &[
    libc::SYS_accept4,
    libc::SYS_brk,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_clone3, // refused by a filter of its own
    libc::SYS_close,
    libc::SYS_connect,
    libc::SYS_dup,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_faccessat,
    libc::SYS_fstat,
    libc::SYS_futex,
    libc::SYS_getcwd,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpeername,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_newfstatat,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_set_robust_list,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_sigaltstack,
    libc::SYS_statx,
    libc::SYS_uname,
    libc::SYS_write,
    libc::SYS_writev,
];

/// What the older ones are called that newer machines do without, and musl uses.
#[cfg(target_arch = "x86_64")]
const ALLOWED_HERE: &[c_long] = &[
    libc::SYS_access,
    libc::SYS_epoll_wait,
    libc::SYS_lstat,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_stat,
];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_HERE: &[c_long] = &[];

/// Families of sockets: `AF_UNIX` would reach what trusts root by its user id. A pair of them would too, if it sends datagrams.
const FAMILIES: [c_int; 2] = [libc::AF_INET, libc::AF_INET6];

/// What is done to descriptors. `F_SETOWN` would have the kernel send signals.
const FCNTLS: [c_int; 6] =
    [libc::F_GETFD, libc::F_SETFD, libc::F_GETFL, libc::F_SETFL, libc::F_DUPFD, libc::F_DUPFD_CLOEXEC];

/// A log asks whether it is a terminal.
const IOCTLS: [libc::Ioctl; 3] = [libc::FIONBIO, libc::FIONREAD, libc::TCGETS];

/// Names of threads, and of their memory.
const PRCTLS: [c_int; 3] = [libc::PR_SET_NAME, libc::PR_GET_NAME, libc::PR_SET_VMA];

/// A file that is opened for reading has none of these.
const WRITES: c_int = libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC | libc::O_TMPFILE & !libc::O_DIRECTORY;

type SeccompRules = BTreeMap<c_long, Vec<SeccompRule>>;

/// Has the kernel refuse the others to the calling thread and to those that it starts.
///
/// # Errors
/// That it cannot.
pub(super) fn deny() -> Result<(), SeccompError> {
    // A filter does not see its flags. glibc does without, if there seems to be none.
    let unseen = SeccompRules::from([(libc::SYS_clone3, Vec::new())]);
    let errno = |number: c_int| SeccompAction::Errno(number.unsigned_abs());
    seccompiler::apply_filter(&program(unseen, errno(libc::ENOSYS), SeccompAction::Allow)?)?;
    Ok(seccompiler::apply_filter(&program(allowed()?, SeccompAction::Allow, errno(libc::EPERM))?)?)
}

fn program(
    rules: SeccompRules,
    of_rules: SeccompAction,
    of_others: SeccompAction,
) -> Result<BpfProgram, BackendError> {
    SeccompFilter::new(rules, of_others, of_rules, ARCH.try_into()?)?.try_into()
}

fn allowed() -> Result<SeccompRules, BackendError> {
    let mut rules: SeccompRules =
        ALLOWED.iter().chain(ALLOWED_HERE).map(|call| (*call, Vec::new())).collect();
    let own = [process::id().into()];
    rules.insert(libc::SYS_openat, vec![has(2, WRITES, 0)?]);
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_open, vec![has(1, WRITES, 0)?]);
    rules.insert(libc::SYS_clone, vec![has(0, libc::CLONE_THREAD, libc::CLONE_THREAD)?]);
    rules.insert(libc::SYS_socket, one_of(0, FAMILIES.map(number))?);
    rules.insert(libc::SYS_fcntl, one_of(1, FCNTLS.map(number))?);
    rules.insert(libc::SYS_ioctl, one_of(1, IOCTLS)?);
    rules.insert(libc::SYS_prctl, one_of(0, PRCTLS.map(number))?);
    // Of itself: limits, and the signal by which glibc aborts.
    rules.insert(libc::SYS_prlimit64, one_of(0, [0])?);
    rules.insert(libc::SYS_tgkill, one_of(0, own)?);
    Ok(rules)
}

fn number(value: c_int) -> u64 {
    u64::from(value.unsigned_abs())
}

/// An argument that is one of these.
fn one_of<const N: usize>(argument: u8, values: [u64; N]) -> Result<Vec<SeccompRule>, BackendError> {
    let is = |value| {
        let condition = SeccompCondition::new(argument, Dword, SeccompCmpOp::Eq, value)?;
        SeccompRule::new(vec![condition])
    };
    values.into_iter().map(is).collect()
}

/// An argument that has, of these bits, those.
fn has(argument: u8, of: c_int, those: c_int) -> Result<SeccompRule, BackendError> {
    let masked = SeccompCmpOp::MaskedEq(number(of));
    SeccompRule::new(vec![SeccompCondition::new(argument, Dword, masked, number(those))?])
}
