//! The text output and the exit status of `silkrail apply`.

use std::io::Write;

use provision::{ApplyReport, ModeReport, PciBackendError, PfPlan, PfRefusal};

use crate::{
    exit::{CommandError, CommandExit},
    json,
    mode::print_change,
};

/// Returns the exit status of the most serious result.
pub(crate) fn exit(report: &ApplyReport, detailed: bool) -> CommandExit {
    let timed_out = |failure: &provision::PfFailure| {
        matches!(failure.why, provision::PfFailureCause::Hardware(PciBackendError::TimedOut { .. }))
    };
    if report.failures.iter().any(timed_out) {
        return CommandExit::TimedOut;
    }
    if !report.failures.is_empty() {
        return CommandExit::Failed;
    }
    if !report.missing.is_empty() {
        return CommandExit::Wrong;
    }
    if let Some(exit) = exit_of_refusals(&report.plan.refusals().collect::<Vec<_>>()) {
        return exit;
    }
    if !report.left.is_empty() {
        return CommandExit::Failed;
    }
    if report.needs_reboot() {
        return CommandExit::NeedsReboot;
    }
    if detailed && report.has_changed() { CommandExit::Changed } else { CommandExit::Done }
}

/// Returns the exit status of the most serious refusal.
fn exit_of_refusals(refusals: &[&PfRefusal]) -> Option<CommandExit> {
    if refusals.iter().any(|refusal| refusal.is_wrong()) {
        return Some(CommandExit::Wrong);
    }
    if refusals.iter().any(|refusal| !refusal.is_unsupported()) {
        return Some(CommandExit::Refused);
    }
    (!refusals.is_empty()).then_some(CommandExit::Unsupported)
}

pub(crate) fn print(report: &ApplyReport, as_json: bool, out: &mut dyn Write) -> Result<(), CommandError> {
    if as_json {
        return json::print(report, out);
    }
    if let Some(mode) = &report.rdma_mode {
        print_mode(mode, report.dry_run, out)?;
    }
    for missing in &report.missing {
        writeln!(out, "{missing}")?;
    }
    for pf in &report.plan.pfs {
        print_pf(report, pf, out)?;
    }
    for pf in report.left.pfs.iter().filter(|pf| !pf.steps.is_empty()) {
        writeln!(out, "{} ({}): remaining steps: {}", pf.name, pf.pci, pf.summary().join("; "))?;
    }
    if report.dry_run && report.has_changed() {
        writeln!(out, "Nothing was done. To apply it, run the command again without --dry-run.")?;
    }
    if !report.dry_run && report.has_changed() && report.is_right() {
        writeln!(out, "next: silkrail doctor; then create address pools in /etc/silkrail/pools.d")?;
    }
    Ok(())
}

fn print_mode(mode: &ModeReport, dry_run: bool, out: &mut dyn Write) -> Result<(), CommandError> {
    let (wanted, next) = (mode.wanted, mode.next_boot);
    let now = mode.now.map_or("none".to_owned(), |now| now.to_string());
    match &mode.done {
        Some(done) => print_change(done, out)?,
        None if mode.is_right() => writeln!(out, "RDMA mode: {wanted}: nothing to do")?,
        None if dry_run => {
            writeln!(
                out,
                "RDMA mode: would be set to {wanted}; it is {now}, and {next} after the next boot"
            )?;
        }
        None => {}
    }
    Ok(())
}

fn print_pf(report: &ApplyReport, pf: &PfPlan, out: &mut dyn Write) -> Result<(), CommandError> {
    let head = format!("{} ({})", pf.name, pf.pci);
    let failures: Vec<_> = report.failures.iter().filter(|failure| failure.pci == pf.pci).collect();
    match (&pf.refusal, failures.first()) {
        (Some(refusal), _) => writeln!(out, "{head}: refused: {refusal}")?,
        (None, Some(_)) => {
            for failure in failures {
                let step = failure.step.as_ref().map_or_else(String::new, |step| format!("{step}: "));
                writeln!(out, "{head}: failed: {step}{}", failure.why)?;
            }
        }
        (None, None) if pf.steps.is_empty() && pf.dcb_refusal.is_some() => {}
        (None, None) if pf.steps.is_empty() => {
            writeln!(out, "{head}: {}: nothing to do", provision::vfs(pf.vfs))?
        }
        (None, None) if report.dry_run => {
            writeln!(out, "{head}: would be done:")?;
            pf.summary().iter().try_for_each(|step| writeln!(out, "  {step}"))?;
        }
        (None, None) => writeln!(out, "{head}: {}: done", provision::vfs(pf.vfs))?,
    }
    if let Some(refusal) = &pf.dcb_refusal {
        writeln!(out, "{head}: DCB settings: refused: {refusal}")?;
    }
    for note in &pf.notes {
        writeln!(out, "{head}: note: {note}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rdma::NetnsMode::{Exclusive, Shared};

    use super::*;

    #[test]
    fn a_dry_run_that_would_change_only_the_mode_has_the_exit_status_of_a_change() {
        let report = |wanted| {
            let mode = ModeReport { wanted, now: Some(Shared), next_boot: Shared, done: None };
            ApplyReport { dry_run: true, rdma_mode: Some(mode), ..ApplyReport::default() }
        };
        assert_eq!(exit(&report(Exclusive), true), CommandExit::Changed);
        assert_eq!(exit(&report(Exclusive), false), CommandExit::Done);
        assert_eq!(exit(&report(Shared), true), CommandExit::Done);
    }

    #[test]
    fn the_exit_status_is_that_of_the_most_serious_result() {
        let (wrong, refused, unsupported) = (
            PfRefusal::TooMany { wanted: 9, most: 8 },
            PfRefusal::NotOurs { have: 2 },
            PfRefusal::NoSriov { driver: None },
        );
        for (refusals, expected) in [
            (&[][..], None),
            (&[&unsupported], Some(CommandExit::Unsupported)),
            (&[&unsupported, &refused], Some(CommandExit::Refused)),
            (&[&refused, &unsupported, &wrong], Some(CommandExit::Wrong)),
        ] {
            assert_eq!(exit_of_refusals(refusals), expected, "{refusals:?}");
        }
        let failure = |why| provision::PfFailure {
            pci: "0000:af:00.0".parse().unwrap(),
            name: "eth0".into(),
            step: None,
            why: provision::PfFailureCause::Hardware(why),
        };
        let (what, limit) = ("write 4".to_owned(), std::time::Duration::ZERO);
        let late = PciBackendError::TimedOut { what, limit };
        let broken = PciBackendError::NoDriver { function: "0000:af:00.1".parse().unwrap(), limit };
        let mut report = ApplyReport { missing: vec!["no PF matches".into()], ..ApplyReport::default() };
        assert_eq!(exit(&report, true), CommandExit::Wrong);
        report.failures = vec![failure(broken)];
        assert_eq!(exit(&report, true), CommandExit::Failed);
        report.failures.push(failure(late));
        assert_eq!(exit(&report, true), CommandExit::TimedOut);
    }
}
