//! Schedules as data: the choices of an exploration, and their text form.
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// One choice, or several consecutive choices of the same lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The lane `number` runs for `times` steps.
    Lane { number: u32, times: u32 },
    /// Index of the chosen option, among the values that a load may return.
    Option(u32),
}

/// Choices of one launch.
pub type Choices = Arc<[Choice]>;

/// Choices made in all launches of a device, as data.
///
/// In text form, launches are separated by `/` and choices by `,`. `7` lets lane 7 make a step, `7x3` three
/// steps, and `v1` takes the second of the values that a load might return. Lanes are numbered across the
/// blocks of a launch.
///
/// ```
/// use simt::emulator::Trace;
///
/// let trace: Trace = "7x3,v1/0".parse()?;
/// assert_eq!((trace.launches(), trace.to_string().as_str()), (2, "7x3,v1/0"));
/// # Ok::<(), simt::emulator::TraceError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Trace {
    launches: Vec<Choices>,
}

impl Trace {
    pub(in super::super) fn new(launches: Vec<Choices>) -> Self {
        Self { launches }
    }

    /// Returns the number of launches recorded.
    pub fn launches(&self) -> usize {
        self.launches.len()
    }

    pub(super) fn launch(&self, index: usize) -> Choices {
        self.launches.get(index).cloned().unwrap_or_default()
    }
}

/// Error in the text of a trace or schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// The text is not a valid choice.
    #[error("`{text}` is no choice: expected a lane (`7`), a lane several times (`7x3`) or a value (`v1`)")]
    Choice {
        /// Invalid text.
        text: String,
    },
    /// The text is not a valid schedule.
    #[error("`{text}` is no schedule: expected `random:SEED`, `pct:SEED:DEPTH` or `replay:TRACE`")]
    Schedule {
        /// Invalid text.
        text: String,
    },
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lane { number, times: 1 } => write!(f, "{number}"),
            Self::Lane { number, times } => write!(f, "{number}x{times}"),
            Self::Option(option) => write!(f, "v{option}"),
        }
    }
}

impl FromStr for Choice {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<Self, TraceError> {
        let number = |digits: &str| digits.parse().map_err(|_| TraceError::Choice { text: text.to_owned() });
        if let Some(option) = text.strip_prefix('v') {
            return Ok(Self::Option(number(option)?));
        }
        let (lane, times) = text.split_once('x').unwrap_or((text, "1"));
        Ok(Self::Lane { number: number(lane)?, times: number(times)? })
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, launch) in self.launches.iter().enumerate() {
            f.write_str(if i > 0 { "/" } else { "" })?;
            for (j, choice) in launch.iter().enumerate() {
                write!(f, "{}{choice}", if j > 0 { "," } else { "" })?;
            }
        }
        Ok(())
    }
}

impl FromStr for Trace {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<Self, TraceError> {
        let choices =
            |launch: &str| launch.split(',').filter(|text| !text.is_empty()).map(str::parse).collect();
        let launches = if text.is_empty() {
            Vec::new()
        } else {
            text.split('/').map(choices).collect::<Result<_, _>>()?
        };
        Ok(Self { launches })
    }
}

/// Choices being recorded.
#[derive(Debug, Default)]
pub struct Recording(Vec<Choice>);

impl Recording {
    pub fn lane(&mut self, lane: u32) {
        match self.0.last_mut() {
            Some(Choice::Lane { number, times }) if *number == lane && *times < u32::MAX => *times += 1,
            _ => self.0.push(Choice::Lane { number: lane, times: 1 }),
        }
    }

    pub fn option(&mut self, option: u32) {
        self.0.push(Choice::Option(option));
    }

    pub fn choices(&self) -> Choices {
        self.0.as_slice().into()
    }
}
