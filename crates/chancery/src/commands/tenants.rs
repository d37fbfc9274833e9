//! Several nodes in one process, each with a configuration, a journal, an address and threads of its own. They share
//! nothing but the process: one that does not start, or fails, ends all of them.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};

use chancery_node::tenant::{self, Tenant};
use tokio::sync::watch;

use super::serve::{Signals, runtime_of, until_told};
use crate::config::{Config, DEFAULT_FILE, Flags, Sources, Store};
use crate::exit::{Exit, Failed, Failure, Outcome};
use crate::host::{Host, StartLine};
use crate::terminal::Terminal;

/// A node that is to be run.
struct Described {
    name: Tenant,
    config: Config,
}

/// What a tenant's thread tells.
enum Told {
    Serves(StartLine),
    /// With the tenant's number.
    Ended(usize, Outcome),
}

/// Runs the node of the sources and those of further files until they are told to stop.
pub(crate) fn run(first: &Sources, further: &[PathBuf], terminal: &mut Terminal) -> Outcome {
    let described = describe(first, further)?;
    let (stop, stopped) = watch::channel(false);
    let (tell, told) = channel();
    let (mut running, mut outcome) = (0, Ok(Exit::Done));
    for (number, tenant) in described.iter().enumerate() {
        start(number, tenant, tell.clone(), stopped.clone())?;
        running += 1;
        // One after the other: the first that does not start is the one that is told of.
        match told.recv() {
            Ok(Told::Serves(line)) => {
                terminal.json_line(&line)?;
                terminal.out.flush()?;
            }
            Ok(Told::Ended(number, ended)) => {
                running -= 1;
                outcome = named(&described[number].name, ended);
                break;
            }
            Err(_) => break,
        }
    }
    drop(tell);
    if running < described.len() {
        stop.send_replace(true);
    }
    while running > 0 {
        let (number, ended) = match told.recv() {
            Ok(Told::Ended(number, ended)) => (number, ended),
            // It was about to serve, and is told to stop.
            Ok(Told::Serves(_)) => continue,
            Err(_) => return Err(Failure::damaged("a thread of a tenant has ended").into()),
        };
        running -= 1;
        // A signal stops all of them; a failure of one does too.
        stop.send_replace(true);
        if outcome.is_ok() {
            outcome = named(&described[number].name, ended);
        }
    }
    outcome
}

/// Reads all configurations; nothing is started while one of them is wrong.
fn describe(first: &Sources, further: &[PathBuf]) -> Result<Vec<Described>, Failure> {
    let mut described: Vec<Described> = Vec::new();
    let own = Sources {
        environment: Vec::new(),
        flags: Flags::default(),
        ..first.clone()
    };
    let further = further.iter().map(|file| Sources {
        file: Some(file.clone()),
        ..own.clone()
    });
    for sources in std::iter::once(first.clone()).chain(further) {
        let file = sources.file.clone().unwrap_or_else(|| DEFAULT_FILE.into());
        let tenant = Described {
            name: name_of(&file)?,
            config: Config::load(&sources)?,
        };
        for other in &described {
            check_apart(other, &tenant)?;
        }
        described.push(tenant);
    }
    Ok(described)
}

/// A tenant is called as its file is.
fn name_of(file: &Path) -> Result<Tenant, Failure> {
    let stem = file.file_stem().and_then(|stem| stem.to_str());
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    match stem.filter(|stem| stem.chars().all(plain)) {
        Some(stem) => Ok(stem.into()),
        None => Err(Failure::usage(format!(
            "{}: a tenant is called as its file is: letters, digits, '-', '_' and '.'",
            file.display()
        ))),
    }
}

fn check_apart(one: &Described, other: &Described) -> Result<(), Failure> {
    let shares = |what: &str, next: &str| {
        let (one, other) = (&one.name, &other.name);
        Err(Failure::usage(format!("tenants {one} and {other} have the same {what}")).next(next))
    };
    if one.name == other.name {
        return shares(
            "name",
            "a tenant is called as its file is: name the files differently",
        );
    }
    if one.config.data == other.config.data {
        return shares("data", "give each a directory of its own");
    }
    match (&one.config.store, &other.config.store) {
        (Store::Postgres(own), Store::Postgres(others))
            if own.url == others.url && own.journal == others.journal =>
        {
            shares("journal", "give each a journal of its own")
        }
        _ => Ok(()),
    }
}

/// Starts a tenant's thread, from which all its other threads come.
fn start(
    number: usize,
    tenant: &Described,
    tell: Sender<Told>,
    mut stopped: watch::Receiver<bool>,
) -> Result<(), Failure> {
    let (name, config) = (tenant.name.clone(), tenant.config.clone());
    let work = move || {
        tenant::work_for(Some(name.clone()));
        let serve = async {
            let signals = Signals::new()?;
            let host = Host::start_to_serve(&config, None).await?;
            let _ = tell.send(Told::Serves(host.start_line().of_tenant(&name)));
            let stop = async move {
                let _ = stopped.wait_for(|stop| *stop).await;
                Ok(())
            };
            until_told(host, signals, stop).await
        };
        let ended = runtime_of(Some(name.clone()))
            .map_err(Failed::from)
            .and_then(|runtime| {
                let ended = runtime.block_on(serve);
                runtime.shutdown_background();
                ended
            });
        let _ = tell.send(Told::Ended(number, ended));
    };
    let thread = std::thread::Builder::new().name(tenant.name.to_string());
    let spawned = thread.spawn(work);
    spawned
        .map(drop)
        .map_err(|error| Failure::damaged(format!("cannot start a thread: {error}")))
}

/// What a tenant's end tells, with its name.
fn named(name: &Tenant, ended: Outcome) -> Outcome {
    ended.map_err(|failed| match failed {
        Failed::Told(failure) => Failed::Told(Failure {
            what: format!("tenant {name}: {}", failure.what),
            ..failure
        }),
        Failed::NobodyReads => Failed::NobodyReads,
    })
}
