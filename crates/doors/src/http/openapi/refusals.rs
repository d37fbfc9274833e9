//! The statuses with which a path may refuse, each with the shape of its body. Those of envelopes are taken from the lists of
//! codes, so that a new code is described at once.

use chancery_value_context::code::Code as ValueContextCode;
use chancery_vibe::code::Code as VibeCode;

use super::super::access::Rule;
use super::super::router::{Shape, shape};
use super::super::table::Route;

/// What a path can refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusals {
    /// Nothing of its own.
    None,
    /// A question: the wrong parameters, or nothing there.
    Read,
    /// A question of vacant, whose own refusals are in its shape.
    Face,
    /// An act of administration.
    Act,
    /// An act of vacant's administration.
    VacantAct,
    /// An envelope: whatever its protocol refuses.
    Envelope,
    /// A frame of JSON-RPC: refused inside its answer, but for what keeps it from being read.
    Frame,
    /// A resource of A2A's HTTP+JSON binding.
    Resource,
    /// A WebSocket.
    Upgrade,
}

type Refused = (u16, &'static str);

/// All that a path may answer besides what it is for.
pub(super) fn of(route: &Route, refusals: Refusals) -> Vec<Refused> {
    let shape = shape(route.path);
    let own = schema(shape);
    // A node that stops, and in dev a caller from elsewhere.
    let mut all = vec![(503, own), (403, foreign(shape))];
    match route.rule {
        Rule::Public | Rule::Signed(_) => {}
        Rule::Token(_) => all.extend(problems(&[401, 403, 500, 503])),
        Rule::Principal(_) => all.extend([(401, own), (403, own), (500, own), (503, own)]),
        Rule::DevOnly => all.extend(problems(&[404])),
    }
    match refusals {
        Refusals::None => {}
        Refusals::Read if shape == Shape::Vibe => {
            all.extend([400, 404, 500, 503].map(|status| (status, own)));
        }
        Refusals::Read => all.extend(problems(&[400, 404, 500, 503])),
        Refusals::Face => {
            all.extend([404, 410, 503].map(|status| (status, own)));
            all.extend(problems(&[400, 403, 500, 503]));
        }
        Refusals::Act => {
            all.extend(problems(&[400, 404, 408, 409, 413, 500, 503]));
            if shape == Shape::Vibe {
                all.extend([400, 404, 500, 503].map(|status| (status, own)));
            }
        }
        Refusals::VacantAct => {
            all.extend(problems(&[400, 408, 413, 500, 503]));
            all.extend(of_vacant());
        }
        Refusals::Envelope => all.extend(of_envelopes(shape)),
        Refusals::Frame => {
            all.extend([400, 404, 413, 503].map(|status| (status, "VacantRefusal")));
            all.extend([400, 403, 404, 406, 415].map(|status| (status, "RpcAnswer")));
        }
        Refusals::Resource => {
            let statuses = of_vacant().map(|(status, _)| (status, "A2aFault"));
            all.extend(statuses.chain([(404, "VacantRefusal"), (503, "VacantRefusal")]));
        }
        Refusals::Upgrade => all.extend(problems(&[400, 426, 503])),
    }
    if shape == Shape::Agh && refusals == Refusals::Upgrade {
        all.extend([400, 409, 503].map(|status| (status, own)));
    }
    all
}

fn problems(statuses: &[u16]) -> impl Iterator<Item = Refused> {
    statuses.iter().map(|status| (*status, "Problem"))
}

const fn schema(shape: Shape) -> &'static str {
    match shape {
        Shape::ValueContext => "ValueContextRejection",
        Shape::Vibe => "VibeRefusal",
        Shape::Vacant => "VacantRefusal",
        Shape::Agh => "AghVerdict",
        Shape::Problem => "Problem",
    }
}

const fn foreign(shape: Shape) -> &'static str {
    match shape {
        Shape::Agh => "Problem",
        shape => schema(shape),
    }
}

fn of_envelopes(shape: Shape) -> Vec<Refused> {
    let own = schema(shape);
    match shape {
        Shape::ValueContext => ValueContextCode::ALL
            .iter()
            .map(|code| (code.status(), own))
            .collect(),
        Shape::Vibe => VibeCode::ALL
            .iter()
            .map(|code| (code.status(), own))
            .collect(),
        Shape::Vacant => of_vacant().collect(),
        Shape::Agh => [400, 404, 408, 409, 413, 423, 500, 503]
            .map(|status| (status, own))
            .to_vec(),
        Shape::Problem => Vec::new(),
    }
}

fn of_vacant() -> impl Iterator<Item = Refused> {
    let guides = chancery_vacant::guide::guides().into_iter();
    guides.filter_map(|guide| Some((guide.status?, "VacantRefusal")))
}
