//! The reader. Open arrays and objects stand on a list of its own, not on the call stack.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::number::{is_integer, is_safe, token_len};
use super::text::{At, read_string};
use super::{
    DuplicateNames, Fault, FaultKind, Integers, MAX_DEPTH, Number, Object, Overflow, Path,
    ReadRules, Value,
};

/// An object with more members than this keeps an ordered index of their names: looking at each in turn
/// is faster up to here and would be quadratic beyond.
const SCANNED_MEMBERS: usize = 16;

/// Room that most texts need, taken at once.
const FEW_OPEN: usize = 4;
const FEW_MEMBERS: usize = 16;
const FEW_ITEMS: usize = 8;

/// A token without exponent needs more than 308 digits to be beyond a double.
const FINITE_TOKEN_BYTES: usize = 308;

/// Reads one JSON text under the given rules.
///
/// # Errors
/// The first fault of the text, with its place.
pub fn read<'a>(text: &'a [u8], rules: &ReadRules) -> Result<Value<'a>, Fault> {
    read_noting(text, rules).map(|(value, _)| value)
}

/// Reads one JSON text under the given rules, and says whether the text is plain: surely in the form that every
/// canonical dialect gives its value. There is no white space, names are ASCII and sorted, nothing is escaped, numbers
/// are integers of at most 2^53 − 1. A text that is not plain may be canonical too: writing it out tells.
///
/// # Errors
/// The first fault of the text, with its place.
pub fn read_noting<'a>(text: &'a [u8], rules: &ReadRules) -> Result<(Value<'a>, bool), Fault> {
    let text = check_encoding(text, rules).map_err(|(kind, offset)| Fault {
        kind,
        path: Path::root(),
        offset,
    })?;
    let mut reader = Reader {
        text,
        bytes: text.as_bytes(),
        at: 0,
        rules,
        max_depth: rules.max_depth.min(MAX_DEPTH),
        open: Vec::with_capacity(FEW_OPEN),
        items: Vec::new(),
        members: Vec::with_capacity(FEW_MEMBERS),
        plain: true,
    };
    let value = reader.document()?;
    Ok((value, reader.plain))
}

fn check_encoding<'a>(text: &'a [u8], rules: &ReadRules) -> Result<&'a str, At> {
    if text.len() > rules.max_bytes {
        return Err((FaultKind::TooLarge, rules.max_bytes));
    }
    if text.starts_with(b"\xef\xbb\xbf") {
        return Err((FaultKind::ByteOrderMark, 0));
    }
    std::str::from_utf8(text).map_err(|error| (FaultKind::InvalidUtf8, error.valid_up_to()))
}

type Member<'a> = (Cow<'a, str>, Value<'a>);

struct Reader<'a, 'r> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    rules: &'r ReadRules,
    max_depth: usize,
    /// The arrays and objects around the value being read, outermost first.
    open: Vec<Open<'a>>,
    /// The items so far of all open arrays, so that each array is allocated once, in its final size.
    items: Vec<Value<'a>>,
    /// The members so far of all open objects.
    members: Vec<Member<'a>>,
    /// Whether the text so far is plain.
    plain: bool,
}

enum Open<'a> {
    Array { start: usize },
    Object(OpenObject<'a>),
}

struct OpenObject<'a> {
    start: usize,
    /// The name of the member whose value is being read.
    name: Cow<'a, str>,
    /// The earlier member of that name, whose value is replaced.
    replaces: Option<usize>,
    /// Where each name stands in `members`, once there are many.
    index: BTreeMap<Cow<'a, str>, usize>,
}

/// What follows after a value is complete.
enum Next<'a> {
    /// Another value of the same array or object.
    Value,
    /// The array or object that it completed.
    Completed(Value<'a>),
    /// Nothing: it was the document.
    End(Value<'a>),
}

impl<'a> Reader<'a, '_> {
    fn document(&mut self) -> Result<Value<'a>, Fault> {
        loop {
            let Some(mut value) = self.begin_value()? else {
                continue;
            };
            loop {
                match self.place(value)? {
                    Next::Value => break,
                    Next::Completed(container) => value = container,
                    Next::End(document) => return Ok(document),
                }
            }
        }
    }

    /// Reads a value that has no values inside, or opens one that has: then `None`, and its first one is
    /// next.
    fn begin_value(&mut self) -> Result<Option<Value<'a>>, Fault> {
        self.skip_space();
        let value = match self.peek() {
            Some(b'"') => Value::String(self.string().map_err(|at| self.fault(at))?),
            Some(b'{') => return self.open_object(),
            Some(b'[') => return self.open_array(),
            Some(b'-' | b'0'..=b'9') => Value::Number(self.number().map_err(|at| self.fault(at))?),
            Some(b't') => self.word(b"true", Value::Bool(true))?,
            Some(b'f') => self.word(b"false", Value::Bool(false))?,
            Some(b'n') => self.word(b"null", Value::Null)?,
            _ => return Err(self.fault(self.unexpected())),
        };
        Ok(Some(value))
    }

    fn open_array(&mut self) -> Result<Option<Value<'a>>, Fault> {
        self.check_depth()?;
        self.at += 1;
        self.skip_space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Some(Value::Array(Vec::new())));
        }
        let start = self.items.len();
        self.items.reserve(FEW_ITEMS);
        self.open.push(Open::Array { start });
        Ok(None)
    }

    fn open_object(&mut self) -> Result<Option<Value<'a>>, Fault> {
        self.check_depth()?;
        self.at += 1;
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Some(Value::Object(Object::new())));
        }
        let name = self.name().map_err(|at| self.fault(at))?;
        self.open.push(Open::Object(OpenObject {
            start: self.members.len(),
            name,
            replaces: None,
            index: BTreeMap::new(),
        }));
        Ok(None)
    }

    /// Puts a complete value where it belongs, and reads what separates it from the next.
    fn place(&mut self, value: Value<'a>) -> Result<Next<'a>, Fault> {
        match self.open.last_mut() {
            None => {
                self.skip_space();
                match self.peek() {
                    None => Ok(Next::End(value)),
                    Some(_) => Err(self.fault((FaultKind::TrailingContent, self.at))),
                }
            }
            Some(Open::Array { start }) => {
                let start = *start;
                self.items.push(value);
                self.after_item(start)
            }
            Some(Open::Object(object)) => {
                match object.replaces.take() {
                    Some(earlier) => self.members[earlier].1 = value,
                    None => self.members.push((std::mem::take(&mut object.name), value)),
                }
                self.after_member()
            }
        }
    }

    fn after_item(&mut self, start: usize) -> Result<Next<'a>, Fault> {
        self.skip_space();
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(Next::Value)
            }
            Some(b']') => {
                self.at += 1;
                self.open.pop();
                Ok(Next::Completed(Value::Array(
                    self.items.drain(start..).collect(),
                )))
            }
            _ => Err(self.fault_around(self.unexpected())),
        }
    }

    fn after_member(&mut self) -> Result<Next<'a>, Fault> {
        self.skip_space();
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                self.skip_space();
                let name_at = self.at;
                let name = self.name().map_err(|at| self.fault_around(at))?;
                self.next_member(name, name_at)?;
                Ok(Next::Value)
            }
            Some(b'}') => {
                self.at += 1;
                let start = match self.open.pop() {
                    Some(Open::Object(object)) => object.start,
                    _ => unreachable!("an object is open"),
                };
                let members = self.members.drain(start..).collect();
                Ok(Next::Completed(Value::Object(Object::from_distinct(
                    members,
                ))))
            }
            _ => Err(self.fault_around(self.unexpected())),
        }
    }

    /// Notes the name of the member that follows, and whether the object has it already.
    fn next_member(&mut self, name: Cow<'a, str>, name_at: usize) -> Result<(), Fault> {
        let Some(Open::Object(object)) = self.open.last_mut() else {
            unreachable!("an object is open");
        };
        let is_next = self.members.last().is_some_and(|(last, _)| *last < name);
        if self.plain && is_next {
            // So far all names of this object are sorted, so this one is new.
            object.name = name;
            return Ok(());
        }
        self.plain = false;
        object.expect(name, &self.members);
        if object.replaces.is_some() && self.rules.duplicate_names == DuplicateNames::Refuse {
            return Err(self.fault((FaultKind::DuplicateName, name_at)));
        }
        Ok(())
    }

    /// A member name and the colon after it.
    fn name(&mut self) -> Result<Cow<'a, str>, At> {
        if self.peek() != Some(b'"') {
            return Err(self.unexpected());
        }
        let name = self.string()?;
        self.plain &= name.is_ascii();
        self.skip_space();
        if self.peek() != Some(b':') {
            return Err(self.unexpected());
        }
        self.at += 1;
        Ok(name)
    }

    fn string(&mut self) -> Result<Cow<'a, str>, At> {
        let (string, end) = read_string(self.text, self.at + 1)?;
        self.at = end;
        self.plain &= matches!(string, Cow::Borrowed(_));
        Ok(string)
    }

    fn number(&mut self) -> Result<Number<'a>, At> {
        let start = self.at;
        let Some(len) = token_len(&self.bytes[start..]) else {
            return Err((FaultKind::InvalidNumber, start));
        };
        self.at += len;
        // `01`, `1.5.2`, `1x`: the grammar ends the token here, a reader of text would not.
        if matches!(
            self.peek(),
            Some(b'0'..=b'9' | b'.' | b'+' | b'-' | b'a'..=b'z' | b'A'..=b'Z')
        ) {
            return Err((FaultKind::InvalidNumber, start));
        }
        let token = &self.text[start..self.at];
        self.plain &= is_safe(token) && token != "-0";
        match refusal_of(token, self.rules) {
            Some(kind) => Err((kind, start)),
            None => Ok(Number::from_checked(token)),
        }
    }

    fn word(&mut self, word: &[u8], value: Value<'a>) -> Result<Value<'a>, Fault> {
        let rest = &self.bytes[self.at..];
        if rest.starts_with(word) {
            self.at += word.len();
            return Ok(value);
        }
        let same = rest.iter().zip(word).take_while(|(a, b)| a == b).count();
        self.at += same;
        Err(self.fault(self.unexpected()))
    }

    fn check_depth(&self) -> Result<(), Fault> {
        if self.open.len() >= self.max_depth {
            return Err(self.fault((FaultKind::TooDeep, self.at)));
        }
        Ok(())
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
            self.plain = false;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn unexpected(&self) -> At {
        let kind = match self.peek() {
            Some(_) => FaultKind::Syntax,
            None => FaultKind::UnexpectedEnd,
        };
        (kind, self.at)
    }

    /// A fault in the value being read.
    fn fault(&self, (kind, offset): At) -> Fault {
        let path = self.path(&self.open);
        Fault { kind, path, offset }
    }

    /// A fault between the values of the innermost open array or object.
    fn fault_around(&self, (kind, offset): At) -> Fault {
        let outer = self.open.split_last().map_or(&[][..], |(_, outer)| outer);
        let path = self.path(outer);
        Fault { kind, path, offset }
    }

    /// Where the value being read inside these stands.
    fn path(&self, open: &[Open<'a>]) -> Path {
        let mut path = Path::root();
        for (level, container) in open.iter().enumerate() {
            path = match container {
                Open::Object(object) => path.child(object.name.as_ref()),
                Open::Array { start } => {
                    let inner_array = self.open[level + 1..].iter().find_map(|inner| match inner {
                        Open::Array { start } => Some(*start),
                        Open::Object(_) => None,
                    });
                    path.item(inner_array.unwrap_or(self.items.len()) - start)
                }
            };
        }
        path
    }
}

impl<'a> OpenObject<'a> {
    /// Makes `name` the member whose value is being read, and finds the earlier one of that name.
    /// `members` ends with those of this object.
    fn expect(&mut self, name: Cow<'a, str>, members: &[Member<'a>]) {
        let own = &members[self.start..];
        self.replaces = if own.len() <= SCANNED_MEMBERS {
            let place = own.iter().position(|(earlier, _)| *earlier == name);
            place.map(|place| self.start + place)
        } else {
            if self.index.is_empty() {
                let places = own.iter().zip(self.start..);
                self.index = places
                    .map(|((name, _), place)| (name.clone(), place))
                    .collect();
            }
            match self.index.entry(name.clone()) {
                Entry::Occupied(earlier) => Some(*earlier.get()),
                Entry::Vacant(free) => {
                    free.insert(members.len());
                    None
                }
            }
        };
        self.name = name;
    }
}

/// Why the rules do not take this number.
pub(super) fn refusal_of(token: &str, rules: &ReadRules) -> Option<FaultKind> {
    if is_safe(token) {
        return None;
    }
    let integer = is_integer(token);
    let overflow_matters = match rules.overflow {
        Overflow::Refuse => true,
        Overflow::RefuseFloats => !integer,
        Overflow::Keep => false,
    };
    if overflow_matters && overflows(token) {
        return Some(FaultKind::NumberOverflow);
    }
    (integer && rules.integers == Integers::Safe).then_some(FaultKind::IntegerOutOfRange)
}

fn overflows(token: &str) -> bool {
    let exponent = token.bytes().any(|b| matches!(b, b'e' | b'E'));
    (exponent || token.len() > FINITE_TOKEN_BYTES)
        && Number::from_checked(token).as_f64().is_infinite()
}
