//! Runs a plan with `mpirun`.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::{BandwidthCurve, CollectivePlan, parse};
use crate::{
    Error,
    local_end::{LocalContext, PROGRAM_POLL_INTERVAL},
};

/// How long `mpirun` may take to end its processes on the nodes after SIGTERM.
const MPIRUN_EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs the plan and parses its output.
///
/// # Errors
/// [`Error::NoProgram`] if `mpirun` is not installed; [`Error::Failed`], [`Error::Unusable`], [`Error::TimedOut`],
/// [`Error::Interrupted`].
pub fn run(plan: &CollectivePlan, node: &LocalContext, within: Duration) -> Result<BandwidthCurve, Error> {
    let missing = Error::NoProgram { program: "mpirun", package: "openmpi-bin for NCCL, mpich for HCCL" };
    let mut running = node.launcher.named("mpirun").ok_or(missing)?.start_with(plan.mpirun())?;
    let deadline = Instant::now() + within;
    while !running.has_ended()? {
        let stopped = if Instant::now() >= deadline {
            Some(Error::TimedOut { what: "mpirun".into(), seconds: within.as_secs() })
        } else {
            node.interrupt.check().err()
        };
        if let Some(why) = stopped {
            // SIGKILL would leave the processes on the GPUs of all nodes running.
            running.terminate(MPIRUN_EXIT_TIMEOUT)?;
            return Err(why);
        }
        thread::sleep(PROGRAM_POLL_INTERVAL);
    }
    let output = running.end()?;
    let curve = parse(plan.library, plan.collective, &output.printed);
    match curve {
        // The programs exit with an error if data was wrong. That is a valid result.
        Ok(curve) if output.is_success() || curve.is_wrong() => Ok(curve),
        _ if !output.is_success() => Err(output.failure()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{
        Interrupt,
        collective::{CollectiveLibrary, plan::tests::plan},
        perftest::Launcher,
        simulated_node::write_program,
    };

    /// Returns a context whose `mpirun` is this shell script.
    fn node(script: &str) -> (tempfile::TempDir, LocalContext) {
        let dir = tempfile::tempdir().unwrap();
        let fake = dir.path().join("mpirun");
        write_program(&fake, &format!("#!/bin/sh\n{script}\n"));
        let launcher =
            Launcher { path: dir.path().into(), wrapper: Vec::new(), versions: Default::default() };
        let node = LocalContext {
            launcher,
            sysfs: sysfs::Sysfs::system(),
            interrupt: Interrupt::never(),
            ports_in_use: Default::default(),
        };
        (dir, node)
    }

    #[test]
    fn the_output_of_mpirun_is_parsed() {
        let (_dir, node) = node(
            "case \"$*\" in *'-np 16 -H 10.1.30.41:8,10.1.30.42:8 '*) ;; *) exit 9 ;; esac
            echo '# size count type redop root time algbw busbw #wrong time algbw busbw #wrong'
            echo '  33554432 8388608 float sum -1 2100.5 15.97 29.95 0 2090.4 16.05 30.10 0'",
        );
        let curve = run(&plan(CollectiveLibrary::Nccl), &node, Duration::from_secs(60)).unwrap();
        assert_eq!((curve.plateau_gbs(), curve.is_wrong()), (29.95, false));
    }

    #[test]
    fn a_failed_or_missing_mpirun_is_an_error() {
        // The results until a process failed are not those of the whole job.
        let (_dir, partial) = node(
            "echo '# size count type redop root time algbw busbw #wrong time algbw busbw #wrong'
            echo '  33554432 8388608 float sum -1 2100.5 15.97 29.95 0 2090.4 16.05 30.10 0'
            echo 'a process was killed' >&2; exit 1",
        );
        let error = run(&plan(CollectiveLibrary::Nccl), &partial, Duration::from_secs(60)).unwrap_err();
        assert!(error.to_string().contains("a process was killed"), "{error}");
        let (dir, node) = node("echo 'no CUDA-capable device' >&2; exit 1");
        let error =
            run(&plan(CollectiveLibrary::Nccl), &node, Duration::from_secs(60)).unwrap_err().to_string();
        assert_eq!(error, "mpirun failed (exit status: 1): no CUDA-capable device");
        fs::remove_file(dir.path().join("mpirun")).unwrap();
        let error =
            run(&plan(CollectiveLibrary::Hccl), &node, Duration::from_secs(60)).unwrap_err().to_string();
        assert!(error.starts_with("mpirun: not found in PATH"), "{error}");
    }

    #[test]
    fn long_output_after_the_table_does_not_hide_the_table() {
        let (_dir, node) = node(
            "echo '# size count type redop root time algbw busbw #wrong time algbw busbw #wrong'
            echo '  33554432 8388608 float sum -1 2100.5 15.97 29.95 0 2090.4 16.05 30.10 0'
            yes 'node-a:4711:4711 [0] NCCL INFO comm 0x55d0 rank 0 nranks 1000 - Destroy COMPLETE' | head -n 3000",
        );
        assert!(run(&plan(CollectiveLibrary::Nccl), &node, Duration::from_secs(60)).is_ok());
    }

    #[test]
    fn wrong_data_is_a_result_although_the_program_fails() {
        let (_dir, node) = node(
            "echo '# size count type redop root time algbw busbw #wrong time algbw busbw #wrong'
            echo '  33554432 8388608 float sum -1 2100.5 15.97 29.95 7 2090.4 16.05 30.10 0'
            exit 1",
        );
        assert!(run(&plan(CollectiveLibrary::Nccl), &node, Duration::from_secs(60)).unwrap().is_wrong());
    }

    #[test]
    fn processes_that_do_not_communicate_are_an_error() {
        let (_dir, node) = node(
            "echo '# size count type redop root time algbw busbw #wrong time algbw busbw #wrong'
            echo '  33554432 8388608 float sum -1 50.5 664.44 0.00 0 0.40 83886.08 0.00 0'",
        );
        let error =
            run(&plan(CollectiveLibrary::Nccl), &node, Duration::from_secs(60)).unwrap_err().to_string();
        assert!(error.contains("MPI=1"), "{error}");
        let few = "# a table\n 8 2 float sum -1 25.5 0.00 0.00 0 25.4 0.00 0.00 0\n";
        assert!(parse(CollectiveLibrary::Nccl, crate::collective::Collective::AllReduce, few).is_ok());
    }

    #[test]
    fn an_mpirun_that_times_out_can_clean_up() {
        let (dir, slow) =
            node("trap 'touch $0.clean; exit 1' TERM; touch $0.ready; while :; do sleep 0.05; done");
        // Enough time to set the trap.
        let within = Duration::from_secs(2);
        assert!(matches!(run(&plan(CollectiveLibrary::Nccl), &slow, within), Err(Error::TimedOut { .. })));
        assert!(dir.path().join("mpirun.ready").exists() && dir.path().join("mpirun.clean").exists());
    }

    #[test]
    fn empty_output_is_an_error_and_the_timeout_is_enforced() {
        let (_dir, silent) = node("exit 0");
        assert!(matches!(
            run(&plan(CollectiveLibrary::Hccl), &silent, Duration::from_secs(60)),
            Err(Error::Unusable { .. })
        ));
        let (_dir, slow) = node("exec sleep 100");
        assert!(matches!(
            run(&plan(CollectiveLibrary::Nccl), &slow, Duration::ZERO),
            Err(Error::TimedOut { .. })
        ));
    }
}
