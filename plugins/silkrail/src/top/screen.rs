//! The terminal: its alternate screen, which is left in any case.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    panic,
    sync::{Mutex, Once, PoisonError},
};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// Alternate screen, no cursor, long lines are cut.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";
/// The size if the terminal does not report one.
const USUAL: (usize, usize) = (80, 24);

/// What restores the terminal. The panic hook needs it too: release builds abort, and drop nothing.
static ENTERED: Mutex<Option<Former>> = Mutex::new(None);

/// The terminal, while its alternate screen is shown.
#[derive(Debug)]
pub(super) struct Screen {
    output: OwnedFd,
    input: Option<OwnedFd>,
}

/// The terminal before.
struct Former {
    output: OwnedFd,
    input: Option<(OwnedFd, Termios)>,
}

impl Screen {
    /// Shows the alternate screen; keys of `input` are read one by one and not shown.
    pub(super) fn enter(output: impl AsFd, input: Option<impl AsFd>) -> io::Result<Self> {
        let screen = Self {
            output: output.as_fd().try_clone_to_owned()?,
            input: input.map(|input| input.as_fd().try_clone_to_owned()).transpose()?,
        };
        restore_on_panic();
        screen.resume()?;
        Ok(screen)
    }

    /// Shows the alternate screen again.
    pub(super) fn resume(&self) -> io::Result<()> {
        let mut former = Former { output: self.output.try_clone()?, input: None };
        if let Some(input) = &self.input {
            let modes = tcgetattr(input)?;
            former.input = Some((input.try_clone()?, modes));
        }
        let changed =
            former.input.as_ref().map(|(input, modes)| (input.as_fd().try_clone_to_owned(), modes.clone()));
        *ENTERED.lock().unwrap_or_else(PoisonError::into_inner) = Some(former);
        if let Some((input, mut modes)) = changed {
            modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            tcsetattr(input?, OptionalActions::Flush, &modes)?;
        }
        write_all(&self.output, ENTER.as_bytes())
    }

    /// Shows the usual screen, until [`Screen::resume`].
    pub(super) fn suspend(&self) {
        restore();
    }

    /// Columns and rows.
    pub(super) fn size(&self) -> (usize, usize) {
        match tcgetwinsize(&self.output) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
            _ => USUAL,
        }
    }

    /// Replaces what is shown. Lines that do not fit are cut. They must be of ASCII, without control characters.
    pub(super) fn show(&self, lines: &[String]) -> io::Result<()> {
        let (columns, rows) = self.size();
        let mut frame = "\x1b[H".to_owned();
        for (number, line) in lines.iter().take(rows).enumerate() {
            frame.push_str(if number > 0 { "\r\n" } else { "" });
            frame.extend(line.chars().take(columns));
            frame.push_str("\x1b[K");
        }
        frame.push_str("\x1b[J");
        write_all(&self.output, frame.as_bytes())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the terminal, unless that is done.
fn restore() {
    let former = match ENTERED.try_lock() {
        Ok(mut entered) => entered.take(),
        Err(std::sync::TryLockError::Poisoned(entered)) => entered.into_inner().take(),
        // The thread that panics holds it: it had not changed anything yet.
        Err(std::sync::TryLockError::WouldBlock) => None,
    };
    let Some(former) = former else { return };
    // A terminal that is gone needs nothing.
    let _ = write_all(&former.output, LEAVE.as_bytes());
    if let Some((input, modes)) = former.input {
        let _ = tcsetattr(input, OptionalActions::Now, &modes);
    }
}

/// Restores the terminal before the message of a panic is printed.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            restore();
            print(panic);
        }));
    });
}

/// Writes without the buffer and the lock of standard output.
fn write_all(output: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(output, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
