//! Replay of the choices of an earlier run.
use super::scheduler::{Runnable, Scheduler};
use super::trace::{Choice, Choices};

/// Scheduler that follows recorded choices to their end; then runs lanes round-robin.
pub struct Replay {
    choices: Choices,
    at: usize,
    /// Steps of the lane at `at` so far.
    gone: u32,
    turns: usize,
}

impl Replay {
    pub fn new(choices: Choices) -> Self {
        Self { choices, at: 0, gone: 0, turns: 0 }
    }
}

impl Scheduler for Replay {
    fn next(&mut self, runnable: &Runnable, _current: Option<u32>) -> Option<u32> {
        match self.choices.get(self.at) {
            Some(&Choice::Lane { number, times }) => {
                self.gone += 1;
                if self.gone >= times {
                    (self.at, self.gone) = (self.at + 1, 0);
                }
                runnable.contains(number).then_some(number)
            }
            Some(Choice::Option(_)) => None,
            None => {
                self.turns += 1;
                Some(runnable.lanes()[self.turns % runnable.lanes().len()])
            }
        }
    }

    fn choose(&mut self, options: u32) -> Option<u32> {
        match self.choices.get(self.at) {
            Some(&Choice::Option(option)) if option < options => {
                self.at += 1;
                Some(option)
            }
            Some(_) => None,
            None => Some(0),
        }
    }
}
