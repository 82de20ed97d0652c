//! Panics of kernels become failures of their launches. The hook prints nothing and records the source line.
use super::failure::FailureKind;
use super::lane::Lane;
use super::site::SourceLine;
use std::any::Any;
use std::cell::RefCell;
use std::panic;
use std::sync::Once;

thread_local! {
    static PLACE: RefCell<Option<SourceLine>> = const { RefCell::new(None) };
}

/// Installs a panic hook that records the source line of panics in lanes instead of printing them. Other
/// panics are passed to the previous hook.
pub fn install_hook() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if Lane::try_current().is_none() {
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

/// Ends the launch with the panic of `lane`.
pub fn report(lane: &Lane, payload: &(dyn Any + Send)) {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    let kind = FailureKind::Panic(text.unwrap_or_else(|| "no message".to_owned()));
    lane.worker().run.fail(lane.failure(kind, PLACE.take(), None));
}
