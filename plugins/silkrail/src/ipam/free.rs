//! `silkrail ipam free`: releases addresses that nobody will release.

use std::{io::Write, net::IpAddr, path::Path};

use ::ipam::{ClaimOwner, LocalStore, ReleaseOutcome};
use consent::{Consent, Intent};
use podmap::PodMap;
use serde::Serialize;
use state::{StateDir, journals};

use super::node_addresses::{self, StoreArgs};
use crate::{
    exit::{CommandError, CommandExit},
    json, table,
};

/// Release addresses whose owner has no journal, so that no DEL will release them
///
/// An address of an attachment that has a journal or an entry in the pod map is refused: delete its pod, or run `silkrail gc` if
/// the pod is gone. Nothing is changed without --yes or a yes on the terminal.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct FreeArgs {
    /// Addresses
    #[arg(required = true, value_name = "ADDRESS")]
    addresses: Vec<IpAddr>,
    /// Also release addresses of attachments that have a journal or a pod map entry: if the pod runs, its address will be assigned
    /// twice
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    store: StoreArgs,
}

const EXAMPLES: &str = "\
Examples:
  silkrail ipam fsck               which addresses nobody will release
  silkrail ipam free 10.16.1.7     what would be done
  silkrail ipam free 10.16.1.7 --yes

Exit status:
  0   done, nothing to do, a dry run, or the answer is no
  1   an error
  2   wrong usage
  3   an address is refused";

/// What happens with an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum FreeResult {
    /// It is not claimed.
    Free,
    /// It would be released.
    WouldRelease,
    Released,
    /// It is in use.
    Refused,
    /// It has another owner meanwhile.
    Changed,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct FreeRow {
    address: IpAddr,
    owner: Option<String>,
    result: FreeResult,
    reason: &'static str,
}

impl FreeArgs {
    pub(crate) fn run(&self, root: &Path, out: &mut dyn Write) -> Result<CommandExit, CommandError> {
        let store = node_addresses::store(root, &self.store.state_dir)?;
        let rows = |acts: bool| {
            let row = |address: &IpAddr| self.free(*address, store.as_ref(), acts);
            self.addresses.iter().map(row).collect::<Result<Vec<_>, CommandError>>()
        };
        let intent = self.consent.intent(self.store.json, Intent::Show);
        let mut rows_now = rows(intent == Intent::Act)?;
        if self.store.json {
            json::print(&rows_now, out)?;
        } else {
            print(&rows_now, out)?;
        }
        let can_release = |row: &FreeRow| row.result == FreeResult::WouldRelease;
        if intent == Intent::Ask && rows_now.iter().any(can_release) && consent::confirmed(out)? {
            rows_now = rows(true)?;
            print(&rows_now, out)?;
        }
        let is_refused = |row: &FreeRow| matches!(row.result, FreeResult::Refused | FreeResult::Changed);
        Ok(if rows_now.iter().any(is_refused) { CommandExit::Refused } else { CommandExit::Done })
    }

    fn free(&self, address: IpAddr, store: Option<&LocalStore>, acts: bool) -> Result<FreeRow, CommandError> {
        let row = |owner: Option<&ClaimOwner>, result, reason| FreeRow {
            address,
            owner: owner.map(ToString::to_string),
            result,
            reason,
        };
        let owner = match store {
            Some(store) => store.owner(address)?.map(|owner| (store, owner)),
            None => None,
        };
        let Some((store, owner)) = owner else { return Ok(row(None, FreeResult::Free, "it is not claimed")) };
        if let Some(use_of) = self.use_of(&owner)? {
            return Ok(row(Some(&owner), FreeResult::Refused, use_of));
        }
        if !acts {
            return Ok(row(Some(&owner), FreeResult::WouldRelease, "with --yes"));
        }
        // An ADD writes its journal before it claims an address.
        let is_unused = || Ok::<_, CommandError>(self.use_of(&owner)?.is_none());
        let (result, reason) = match store.release_claim(address, &owner, is_unused)? {
            ReleaseOutcome::Released => (FreeResult::Released, ""),
            ReleaseOutcome::Absent => (FreeResult::Free, "it was released meanwhile"),
            ReleaseOutcome::NotOurs(_) | ReleaseOutcome::Kept => {
                (FreeResult::Changed, "it has another owner meanwhile")
            }
        };
        Ok(row(Some(&owner), result, reason))
    }

    /// Returns why the addresses of an owner must not be released.
    fn use_of(&self, owner: &ClaimOwner) -> Result<Option<&'static str>, CommandError> {
        let ClaimOwner::Attachment(attachment) = owner else { return Ok(None) };
        if self.force {
            return Ok(None);
        }
        let state = &self.store.state_dir;
        if journals::list(&StateDir::at(state))?.iter().any(|journal| journal.attachment == *attachment) {
            return Ok(Some(
                "its attachment has a journal: delete the pod, or run silkrail gc if it is gone",
            ));
        }
        // An entry that cannot be read may be of a running pod.
        let is_mapped = !matches!(PodMap::below(state).read(attachment), Ok(None));
        Ok(is_mapped
            .then_some("its attachment is in the pod map: delete the pod, or run silkrail gc if it is gone"))
    }
}

fn print(rows: &[FreeRow], out: &mut dyn Write) -> Result<(), CommandError> {
    let cells = |row: &FreeRow| {
        let result = match row.result {
            FreeResult::Free => "free",
            FreeResult::WouldRelease => "would be released",
            FreeResult::Released => "released",
            FreeResult::Refused => "refused",
            FreeResult::Changed => "changed",
        };
        [
            row.address.to_string(),
            row.owner.clone().unwrap_or_default(),
            result.to_owned(),
            row.reason.to_owned(),
        ]
    };
    table::print(out, ["ADDRESS", "OWNER", "RESULT", "REASON"], &rows.iter().map(cells).collect::<Vec<_>>())?;
    Ok(())
}
