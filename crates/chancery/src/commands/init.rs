//! `chancery init`: a configuration, a node key and an admin token.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use chancery_core::digest::{Sha256Digest, hex};
use chancery_core::keys::base64;
use chancery_core::keys::ed25519::encode_public_key;
use serde::Serialize;
use serde_json::json;
use zeroize::Zeroizing;

use crate::config::{DEFAULT_FILE, commented_file};
use crate::exit::{Exit, Failure, Outcome};
use crate::secret_file;
use crate::terminal::Terminal;

/// The data directory, where none is named.
const DATA_FOLDER: &str = "chancery-data";

/// The file below the data directory that holds the hash of the first token.
pub(crate) const FIRST_TOKEN: &str = "tokens.init.json";

/// What `init` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct InitArgs {
    /// The directory of the node
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Directory of the log, its index and keys, where it is to be elsewhere [default: chancery-data in DIR]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

/// What `serve` takes over at its first start: who a token speaks for, and its hash, never the token.
#[derive(Debug, Serialize)]
struct FirstToken<'t> {
    id: &'t str,
    principal: &'t str,
    scopes: [&'t str; 1],
    sha256: String,
}

/// The files that `init` makes.
struct Places {
    config: PathBuf,
    data: PathBuf,
    node_key: PathBuf,
    first_token: PathBuf,
}

impl Places {
    fn of(args: &InitArgs) -> Self {
        let dir = &args.dir;
        let data = args.data.clone();
        let data = data.unwrap_or_else(|| dir.join(DATA_FOLDER));
        Self {
            config: dir.join(DEFAULT_FILE),
            node_key: data.join("node.key"),
            first_token: data.join(FIRST_TOKEN),
            data,
        }
    }

    fn refuse_to_overwrite(&self) -> Result<(), Failure> {
        let log = self.data.join("audit.jsonl");
        let all = [&self.config, &self.node_key, &self.first_token, &log];
        match all.into_iter().find(|path| path.exists()) {
            Some(path) => Err(secret_file::exists(path)),
            None => Ok(()),
        }
    }
}

/// Makes the files of a node.
pub(crate) fn run(args: &InitArgs, terminal: &mut Terminal) -> Outcome {
    let places = Places::of(args);
    let text = configuration(args.data.as_deref())?;
    places.refuse_to_overwrite()?;
    std::fs::create_dir_all(&args.dir)
        .map_err(|error| Failure::usage(format!("cannot make {}: {error}", args.dir.display())))?;
    secret_file::make_private_folder(&places.data)?;
    let key = secret_file::new_key(&places.node_key)?;
    let token = write_token(&places.first_token)?;
    // Last, so that a node found by its configuration is whole.
    secret_file::write_new(&places.config, text.as_bytes(), 0o644)?;
    let public = encode_public_key(&key.verifying_key());
    tell(&places, &public, &token, terminal)
}

/// The text of the configuration. It is read from another directory than this command is typed in.
fn configuration(data: Option<&Path>) -> Result<String, Failure> {
    let text = commented_file();
    let Some(data) = data else {
        return Ok(text);
    };
    let cannot = |why: String| Failure::usage(format!("--data {}: {why}", data.display()));
    let whole = std::path::absolute(data).map_err(|error| cannot(error.to_string()))?;
    let whole = whole
        .to_str()
        .ok_or_else(|| cannot("it is no text, as a configuration has to be".to_owned()))?;
    let named = format!("\ndata = {}\n", toml::Value::from(whole));
    Ok(text.replacen(&format!("\ndata = \"{DATA_FOLDER}\"\n"), &named, 1))
}

/// Makes the admin token; only its hash is kept.
fn write_token(path: &Path) -> Result<Zeroizing<String>, Failure> {
    let id = hex::encode(secret_file::random::<8>()?.as_slice());
    let secret = Zeroizing::new(base64::encode_url(secret_file::random::<32>()?.as_slice()));
    let token = Zeroizing::new(format!("cht_{id}.{}", secret.as_str()));
    let first = FirstToken {
        id: &id,
        principal: "admin",
        scopes: ["admin"],
        sha256: Sha256Digest::of(token.as_bytes()).hex(),
    };
    let text = serde_json::to_string(&first)
        .map_err(|error| Failure::damaged(format!("cannot write JSON: {error}")))?;
    secret_file::write_private(path, text.as_bytes())?;
    Ok(token)
}

fn tell(places: &Places, public: &str, token: &str, terminal: &mut Terminal) -> Outcome {
    if terminal.json {
        terminal.json_line(&json!({
            "config": places.config,
            "data": places.data,
            "node_key": places.node_key,
            "public_key": public,
            "admin_token": token,
        }))?;
        return Ok(Exit::Done);
    }
    let token_line = terminal.bold(token);
    writeln!(
        terminal.out,
        "configuration  {}\nnode key       {} (public: {public})\nadmin token    {token_line}",
        places.config.display(),
        places.node_key.display(),
    )?;
    writeln!(
        terminal.out,
        "\nThe token is shown this once and kept as a hash only: put it in a safe place now."
    )?;
    Ok(Exit::Done)
}
