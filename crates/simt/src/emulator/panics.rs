//! Panics of kernels become failures of their launches. The hook prints nothing and records the source line.
use super::failure::FailureKind;
use super::site::SourceLine;
use std::any::Any;
use std::cell::RefCell;
use std::panic;
use std::sync::Once;

thread_local! {
    static PLACE: RefCell<Option<SourceLine>> = const { RefCell::new(None) };
}

/// Installs a panic hook that records the source line of panics in kernels instead of printing them. Other
/// panics are passed to the previous hook. `runs_kernel` tells whether the calling thread runs a kernel.
pub fn install_hook(runs_kernel: fn() -> bool) {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !runs_kernel() {
                return previous(info);
            }
            let line = info.location().map(|at| SourceLine {
                file: at.file().to_owned(),
                line: at.line(),
                column: at.column(),
            });
            PLACE.with_borrow_mut(|place| *place = line);
        }));
    });
}

/// Returns the failure of a panic, and its source line.
pub fn take_failure(payload: &(dyn Any + Send)) -> (FailureKind, Option<SourceLine>) {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    (FailureKind::Panic(text.unwrap_or_else(|| "no message".to_owned())), PLACE.take())
}
