//! Reports of panics. A panic is a fault, whose cause includes the report.

use crate::host::{log, Level};
use core::fmt::{Display, Write};

/// The maximum length of a report in bytes. The host shows less of it.
const MAX: usize = 512;

/// A report is text on the stack, because a panic may mean that there is no memory left.
struct Report {
    bytes: [u8; MAX],
    length: usize,
}

impl Write for Report {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        for c in text.chars() {
            let c = if c == '\n' { ' ' } else { c };
            if self.length + c.len_utf8() > MAX {
                return Err(core::fmt::Error);
            }
            self.length += c.encode_utf8(&mut self.bytes[self.length..]).len();
        }
        Ok(())
    }
}

/// Logs a panic: its message, file and line. See [crate::host::report_panic].
pub(crate) fn report(info: &dyn Display) {
    let mut report = Report { bytes: [0; MAX], length: 0 };
    let _ = write!(report, "{}", info); // an error means that the report is full
    if let Ok(text) = core::str::from_utf8(&report.bytes[..report.length]) {
        log(Level::Error, text);
    }
}

/// Makes std report panics, once. A hook that the module sets later replaces this one.
#[cfg(feature = "std")]
pub(crate) fn install() {
    static INSTALLED: core::sync::atomic::AtomicBool = core::sync::atomic::AtomicBool::new(false);
    if !INSTALLED.swap(true, core::sync::atomic::Ordering::Relaxed) {
        std::panic::set_hook(std::boxed::Box::new(|info| report(info)));
    }
}
