//! The host's memory.

/// Returns the bytes of host memory that are available without swapping, and the total bytes. Returns `None`
/// if the operating system does not report them: they are read from `/proc/meminfo`, which only Linux has.
///
/// Cost: reads a file of the operating system, some 50 µs.
///
/// ```
/// if let Some((available, total)) = gpu::host_memory() {
///     assert!(0 < available && available <= total);
/// }
/// ```
pub fn host_memory() -> Option<(usize, usize)> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let read = |field| kibibytes(&text, field)?.checked_mul(1024);
    Some((read("MemAvailable:")?, read("MemTotal:")?))
}

fn kibibytes(text: &str, field: &str) -> Option<usize> {
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_the_system() {
        assert_eq!(kibibytes("MemTotal:  12 kB\nMemAvailable:   7 kB\n", "MemAvailable:"), Some(7));
        assert_eq!(kibibytes("", "MemTotal:"), None);
        if cfg!(target_os = "linux") {
            let (free, total) = host_memory().expect("Linux reports it");
            assert!(0 < free && free <= total);
        }
    }
}
