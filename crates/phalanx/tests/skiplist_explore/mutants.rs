//! The hunt hunted: lists with one planted bug each, which it must find, and replay. The sound list that is made the same way passes.
