//! A terminal of a test's own: what runs on it finds a person there.

use std::fs::File;
use std::io::{self, Read as _};
use std::process::{Child, Command, ExitStatus};
use std::thread::JoinHandle;

use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// What a read of a terminal says once nobody has it open for writing any more.
const NOBODY_WRITES: i32 = rustix::io::Errno::IO.raw_os_error();

/// Lines and columns.
const SIZE: Winsize = Winsize {
    ws_row: 24,
    ws_col: 100,
    ws_xpixel: 0,
    ws_ypixel: 0,
};

/// Something that runs on a terminal. All that it shows is read while it runs, or it would wait for its reader.
pub struct OnTerminal {
    child: Child,
    shown: JoinHandle<io::Result<Vec<u8>>>,
}

impl OnTerminal {
    /// Starts a command on a terminal that can move its cursor.
    ///
    /// # Errors
    /// There is no terminal to be had, or the command cannot be started.
    pub fn start(mut command: Command) -> io::Result<Self> {
        let (ours, theirs) = pair()?;
        command
            .env("TERM", "xterm")
            .stdin(theirs.try_clone()?)
            .stdout(theirs.try_clone()?)
            .stderr(theirs);
        let child = command.spawn()?;
        // Its copies would keep the terminal open after the child.
        drop(command);
        let shown = std::thread::spawn(move || all_of(ours));
        Ok(Self { child, shown })
    }

    /// The process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end; what the terminal showed.
    ///
    /// # Errors
    /// The terminal cannot be read.
    pub fn finish(mut self) -> io::Result<(ExitStatus, String)> {
        let status = self.child.wait()?;
        let shown = self
            .shown
            .join()
            .expect("reading a terminal does not panic")?;
        Ok((status, String::from_utf8_lossy(&shown).into_owned()))
    }
}

/// Both ends of a new terminal: whoever reads ours sees what is written to theirs. It is nobody's controlling terminal: a
/// test is not ended by its hanging up.
fn pair() -> io::Result<(File, File)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = openpt(flags)?;
    unlockpt(&ours)?;
    tcsetwinsize(&ours, SIZE)?;
    let theirs = ioctl_tiocgptpeer(&ours, flags)?;
    Ok((File::from(ours), File::from(theirs)))
}

/// What is shown until the last writer has gone.
fn all_of(mut terminal: File) -> io::Result<Vec<u8>> {
    let mut shown = Vec::new();
    match terminal.read_to_end(&mut shown) {
        Err(error) if error.raw_os_error() != Some(NOBODY_WRITES) => Err(error),
        _ => Ok(shown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_on_it_finds_a_terminal_and_is_read_to_its_end() {
        let mut shell = Command::new("sh");
        shell.args([
            "-c",
            "test -t 0 && test -t 2 && stty size && seq 20000; exit 3",
        ]);
        let (status, shown) = OnTerminal::start(shell).unwrap().finish().unwrap();
        assert_eq!(status.code(), Some(3));
        let mut lines = shown.lines();
        assert_eq!(lines.next(), Some("24 100"));
        assert_eq!(lines.last(), Some("20000"));
    }
}
