//! The plugins that revert what is stale.

use plugin_runtime::RevertByJournal;

/// Returns the plugin with a name, such as `macvlan`.
pub type FindPlugin = fn(&str) -> Option<&'static dyn RevertByJournal>;
