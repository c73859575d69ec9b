//! Filters that allow only the system calls that a process needs. An allowlist is used because root can do much even without
//! capabilities, and a list of dangerous calls would be incomplete.

use std::{collections::BTreeMap, env::consts::ARCH, process};

use nix::libc::{self, c_int, c_long};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen::Dword, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule,
};

/// The kernel rejects the filter, or the architecture is not supported.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SeccompError {
    #[error("failed to build the seccomp filter: {0}")]
    Filter(#[from] BackendError),
    #[error("failed to install the seccomp filter: {0}")]
    Set(#[from] seccompiler::Error),
}

/// Allowed with any arguments: memory, time, threads, and descriptors that are open.
const ALLOWED: &[c_long] = &[
    libc::SYS_accept4,
    libc::SYS_brk,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_clone3, // refused by a separate filter
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

/// Older system calls that newer architectures do not have; musl uses them.
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

/// Commands of fcntl(2). `F_SETOWN` would make the kernel send signals.
const FCNTLS: [c_int; 6] =
    [libc::F_GETFD, libc::F_SETFD, libc::F_GETFL, libc::F_SETFL, libc::F_DUPFD, libc::F_DUPFD_CLOEXEC];

/// Operations of prctl(2): names of threads and of their memory.
const PRCTLS: [c_int; 3] = [libc::PR_SET_NAME, libc::PR_GET_NAME, libc::PR_SET_VMA];

/// Flags of open(2) that must not be set: files are opened only for reading.
const WRITES: c_int = libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC | libc::O_TMPFILE & !libc::O_DIRECTORY;

/// The allowed system calls. One with several rules is allowed if its arguments match one of them.
pub(crate) type SeccompRules = BTreeMap<c_long, Vec<SeccompRule>>;

/// Returns the calls that every process needs: memory, time, threads, open descriptors, and files for reading.
///
/// # Errors
/// If a rule is invalid.
pub(crate) fn common() -> Result<SeccompRules, BackendError> {
    let mut rules: SeccompRules =
        ALLOWED.iter().chain(ALLOWED_HERE).map(|call| (*call, Vec::new())).collect();
    rules.insert(libc::SYS_openat, vec![has(2, WRITES, 0)?]);
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_open, vec![has(1, WRITES, 0)?]);
    rules.insert(libc::SYS_clone, vec![has(0, libc::CLONE_THREAD, libc::CLONE_THREAD)?]);
    rules.insert(libc::SYS_fcntl, one_of(1, FCNTLS.map(number))?);
    rules.insert(libc::SYS_prctl, one_of(0, PRCTLS.map(number))?);
    // Only on this process: its limits, and the signal by which glibc aborts.
    rules.insert(libc::SYS_prlimit64, one_of(0, [0])?);
    rules.insert(libc::SYS_tgkill, one_of(0, [process::id().into()])?);
    Ok(rules)
}

/// The threads that a filter applies to. Those that they start have it, too.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FilteredThreads {
    Calling,
    All,
}

/// Installs a filter. Other calls fail with `EPERM`.
///
/// # Errors
/// [`SeccompError`]: the process must not serve then.
pub(crate) fn install(rules: SeccompRules, threads: FilteredThreads) -> Result<(), SeccompError> {
    let errno = |number: c_int| SeccompAction::Errno(number.unsigned_abs());
    // A filter cannot read the flags of clone3, which are in memory. On ENOSYS glibc falls back to clone.
    let unseen = SeccompRules::from([(libc::SYS_clone3, Vec::new())]);
    let programs = [
        program(unseen, errno(libc::ENOSYS), SeccompAction::Allow)?,
        program(rules, SeccompAction::Allow, errno(libc::EPERM))?,
    ];
    for program in &programs {
        match threads {
            FilteredThreads::Calling => seccompiler::apply_filter(program)?,
            FilteredThreads::All => seccompiler::apply_filter_all_threads(program)?,
        }
    }
    Ok(())
}

fn program(
    rules: SeccompRules,
    of_rules: SeccompAction,
    of_others: SeccompAction,
) -> Result<BpfProgram, BackendError> {
    SeccompFilter::new(rules, of_others, of_rules, ARCH.try_into()?)?.try_into()
}

/// Returns a number as a filter sees it.
pub(crate) fn number(value: c_int) -> u64 {
    u64::from(value.unsigned_abs())
}

/// Rules that match if the argument is one of the values.
///
/// # Errors
/// If there is no such argument.
pub(crate) fn one_of<const N: usize>(
    argument: u8,
    values: [u64; N],
) -> Result<Vec<SeccompRule>, BackendError> {
    let is = |value| {
        let condition = SeccompCondition::new(argument, Dword, SeccompCmpOp::Eq, value)?;
        SeccompRule::new(vec![condition])
    };
    values.into_iter().map(is).collect()
}

/// A rule that matches if the bits `of` of the argument are equal to `those`.
///
/// # Errors
/// If there is no such argument.
pub(crate) fn has(argument: u8, of: c_int, those: c_int) -> Result<SeccompRule, BackendError> {
    let masked = SeccompCmpOp::MaskedEq(number(of));
    SeccompRule::new(vec![SeccompCondition::new(argument, Dword, masked, number(those))?])
}
