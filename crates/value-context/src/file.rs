//! What is wrong with a configuration file of this protocol, and the small readers they share.

use crate::agent_id::{AgentId, AgentIdFault};
use crate::context::ContextFault;
use crate::creed::CreedFault;
use chancery_core::json::{self, Object, Path, Place, ReadRules, Value};
use chancery_core::keys::KeyringError;
use chancery_core::keys::ed25519::PublicKeyTextError;

/// Largest trust or world file in bytes.
pub const MAX_FILE_BYTES: usize = 64 << 20;

/// A fault of a trust or world file and where it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct FileFault {
    /// The member at fault.
    pub path: Path,
    /// What is wrong with it.
    pub reason: FileReason,
}

/// What can be wrong with a member of a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileReason {
    /// The file is not JSON.
    #[error("{0} (byte {1})")]
    Json(json::FaultKind, usize),
    /// The member must be there.
    #[error("is missing")]
    Missing,
    /// The member has another type.
    #[error("must be {0}")]
    Expected(&'static str),
    /// The member names no agent.
    #[error(transparent)]
    AgentId(#[from] AgentIdFault),
    /// The same agent twice.
    #[error("this agent is named twice")]
    Repeated,
    /// An agent related to itself.
    #[error("an agent cannot be its own parent, child, peer or ancestor")]
    Itself,
    /// The public key cannot be used.
    #[error(transparent)]
    PublicKey(#[from] PublicKeyTextError),
    /// The key does not fit the ones before it.
    #[error(transparent)]
    Keyring(#[from] KeyringError),
    /// The context string is outside its grammar.
    #[error(transparent)]
    Context(#[from] ContextFault),
    /// The constitution reference is outside its grammar.
    #[error(transparent)]
    Creed(#[from] CreedFault),
}

impl FileReason {
    pub(crate) fn at(self, place: &Place<'_>) -> FileFault {
        FileFault {
            path: place.to_path(),
            reason: self,
        }
    }
}

pub(crate) fn read_file(text: &[u8]) -> Result<Value<'_>, FileFault> {
    let rules = ReadRules {
        max_bytes: MAX_FILE_BYTES,
        ..ReadRules::VALUE_CONTEXT
    };
    json::read(text, &rules).map_err(|fault| FileFault {
        path: fault.path,
        reason: FileReason::Json(fault.kind, fault.offset),
    })
}

pub(crate) fn object<'v, 'a>(
    value: &'v Value<'a>,
    place: &Place<'_>,
) -> Result<&'v Object<'a>, FileFault> {
    let expected = || FileReason::Expected("an object").at(place);
    value.as_object().ok_or_else(expected)
}

pub(crate) fn array<'v, 'a>(
    value: &'v Value<'a>,
    place: &Place<'_>,
) -> Result<&'v [Value<'a>], FileFault> {
    let expected = || FileReason::Expected("an array").at(place);
    value.as_array().ok_or_else(expected)
}

pub(crate) fn text<'v>(value: &'v Value<'_>, place: &Place<'_>) -> Result<&'v str, FileFault> {
    let expected = || FileReason::Expected("a string").at(place);
    value.as_str().ok_or_else(expected)
}

pub(crate) fn required<'v, 'a>(
    object: &'v Object<'a>,
    name: &str,
    place: &Place<'_>,
) -> Result<&'v Value<'a>, FileFault> {
    let missing = || FileReason::Missing.at(&place.child(name));
    object.get(name).ok_or_else(missing)
}

/// The text of the member `name`, which must be there.
pub(crate) fn required_text<'v>(
    object: &'v Object<'_>,
    name: &str,
    place: &Place<'_>,
) -> Result<&'v str, FileFault> {
    text(required(object, name, place)?, &place.child(name))
}

/// The member `name`; absent and `null` are the same in a file that people write.
pub(crate) fn optional<'v, 'a>(object: &'v Object<'a>, name: &str) -> Option<&'v Value<'a>> {
    object.get(name).filter(|value| !value.is_null())
}

pub(crate) fn agent_id(text: &str, place: &Place<'_>) -> Result<AgentId, FileFault> {
    AgentId::parse(text).map_err(|fault| FileReason::from(fault).at(place))
}
