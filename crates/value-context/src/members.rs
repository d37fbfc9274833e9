//! Reading closed objects: every member is known or the message is refused (VX-ENV-2).

use crate::code::Fault;
use chancery_core::fault;
use chancery_core::json::{Object, Place, Value};

/// The members of a closed object in the order of `names`.
///
/// Refuses a member of any other name. Absent members are none; `null` is a value like any other, so the
/// reader of that member refuses it (VX-ENV-5).
pub(crate) fn closed<'v, 'a, const N: usize>(
    value: &'v Value<'a>,
    place: &Place<'_>,
    names: [&str; N],
) -> Result<[Option<&'v Value<'a>>; N], Fault> {
    let mut members = [None; N];
    for (name, member) in object(value, place)?.iter() {
        match names.iter().position(|known| *known == name) {
            Some(index) => members[index] = Some(member),
            None if fault::on("vx-unknown-member") => {}
            None => {
                return Err(Fault::schema(
                    &place.child(name),
                    "unexpected member",
                    "VX-ENV-2",
                ));
            }
        }
    }
    Ok(members)
}

/// The object at `place`.
pub(crate) fn object<'v, 'a>(
    value: &'v Value<'a>,
    place: &Place<'_>,
) -> Result<&'v Object<'a>, Fault> {
    value
        .as_object()
        .ok_or_else(|| Fault::schema(place, "must be an object", wrong_type(value)))
}

/// The member at `place`, which must be there.
pub(crate) fn required<'v, 'a>(
    member: Option<&'v Value<'a>>,
    place: &Place<'_>,
) -> Result<&'v Value<'a>, Fault> {
    member.ok_or_else(|| Fault::schema(place, "required member is missing", "VX-ENV-1"))
}

/// The text of the member at `place`, which must be there.
pub(crate) fn required_text<'v>(
    member: Option<&'v Value<'_>>,
    place: &Place<'_>,
) -> Result<&'v str, Fault> {
    text(required(member, place)?, place)
}

/// The text at `place`.
pub(crate) fn text<'v>(value: &'v Value<'_>, place: &Place<'_>) -> Result<&'v str, Fault> {
    value
        .as_str()
        .ok_or_else(|| Fault::schema(place, "must be a string", wrong_type(value)))
}

/// The requirement that a value of the wrong type breaks.
const fn wrong_type(value: &Value<'_>) -> &'static str {
    if value.is_null() {
        "VX-ENV-5"
    } else {
        "VX-ENV-1"
    }
}
