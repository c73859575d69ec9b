//! The log of `silkrail doctor --every`: findings that began or ended, and a line for each examination.

use std::io::{self, Write};

use doctor_record::{DoctorRecord, RecordedFinding};

pub(super) fn run(former: &DoctorRecord, now: &DoctorRecord, out: &mut dyn Write) -> io::Result<()> {
    let was = |finding: &RecordedFinding| {
        former.findings.iter().any(|other| (&other.id, &other.object) == (&finding.id, &finding.object))
    };
    for finding in now.findings.iter().filter(|finding| !was(finding)) {
        write_finding("found", finding, out)?;
    }
    let ended = now.ended.iter().take_while(|ended| ended.until == now.time);
    for ended in ended.filter(|ended| was(&ended.finding)) {
        write_finding("ended", &ended.finding, out)?;
    }
    let count = |severity: &str| now.findings.iter().filter(|finding| finding.severity == severity).count();
    writeln!(
        out,
        "time={} level=info msg=\"examined\" errors={} warnings={}",
        utc::now(),
        count("error"),
        count("warning")
    )?;
    out.flush()
}

fn write_finding(what: &str, finding: &RecordedFinding, out: &mut dyn Write) -> io::Result<()> {
    let RecordedFinding { id, severity, object, summary, .. } = finding;
    writeln!(
        out,
        "time={} level={severity} msg={what:?} id={id} object={object:?} summary={summary:?}",
        utc::now()
    )
}

#[cfg(test)]
mod tests {
    use doctor_record::EndedFinding;

    use super::*;

    #[test]
    fn what_begins_and_ends_is_logged_once() {
        let finding = |id: &str, object: &str, severity: &str| RecordedFinding {
            id: id.into(),
            severity: severity.into(),
            object: object.into(),
            summary: "text".into(),
            since: 0,
        };
        let ended =
            |object: &str, until| EndedFinding { finding: finding("link-down", object, "error"), until };
        let former = DoctorRecord {
            findings: vec![finding("link-down", "eth0", "error"), finding("link-down", "eth1", "error")],
            ..DoctorRecord::default()
        };
        let now = DoctorRecord {
            time: 200,
            findings: vec![
                finding("link-down", "eth0", "error"),
                finding("link-down", "eth2", "error"),
                finding("mtu-differs", "eth0", "warning"),
            ],
            // The last one ended before; and one that is over the limit of recorded findings was not there.
            ended: [ended("eth1", 200), ended("eth8", 200), ended("eth9", 100)].into(),
            ..DoctorRecord::default()
        };
        let logged = |former: &DoctorRecord, now: &DoctorRecord| {
            let mut out = Vec::new();
            run(former, now, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            text.lines().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(
            logged(&former, &now),
            [
                r#"level=error msg="found" id=link-down object="eth2" summary="text""#,
                r#"level=warning msg="found" id=mtu-differs object="eth0" summary="text""#,
                r#"level=error msg="ended" id=link-down object="eth1" summary="text""#,
                r#"level=info msg="examined" errors=2 warnings=1"#,
            ]
        );
        let later = DoctorRecord { time: 300, ..now.clone() };
        assert_eq!(logged(&now, &later), [r#"level=info msg="examined" errors=2 warnings=1"#]);
    }
}
