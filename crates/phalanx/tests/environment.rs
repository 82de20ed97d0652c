//! A device that the environment names and nobody has. One test in a process: it changes the environment.
use gpu::DEVICE_VARIABLE;
use phalanx::{Error, HashMap};

#[test]
fn a_map_is_not_made_elsewhere_than_asked() {
    for (value, works) in [("emulator", true), ("auto", true), ("gpu", false), ("cuda:99", false)] {
        // SAFETY: the only test of this process, and no other thread looks at the environment.
        unsafe { std::env::set_var(DEVICE_VARIABLE, value) };
        let made = HashMap::<u32, u32>::with_capacity(10);
        assert_eq!(made.is_ok(), works, "{value}: {made:?}");
        assert!(works || matches!(made, Err(Error::Device(_))), "{value}");
    }
}
